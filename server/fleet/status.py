"""How a fleet stands: who is there, for whom it waits, what is spent, lost, about to expire or to run out.

From files alone, whether its server runs or not. For the operator: how many devices are there depends on people in
ways that no budget covers.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fedboard.common.files import is_locked
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.fleet.mailbox import SeenFile
from fedboard.server.fleet.register import Member, Register
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import KeysFolder, RoundLog, StateFolder
from fedboard.server.operating.run_files import Fares
from fedboard.server.publishing.expiring import (
    Expiry,
    certificate_expiry,
    manifest_expiry,
    root_expiry,
    roster_expiry,
)
from fedboard.server.publishing.mirror_files import Mirror

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_LATE_SECONDS = 30.0
"""What the server writes is out of date when it is so much older than it would be."""
_LEAST_FREE = 1 << 30
"""Bytes; with less on its disk a server may not get through a round."""
_SHOWN = 5
"""Names of devices that are waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Who takes part."""

    admitted: int
    removed: int
    online: int | None
    """Heard from just now; None where no server runs, or it has not said so yet."""
    open_invitations: int
    presented_again: tuple[str, ...]
    """Whose invitation somebody else presented too."""
    versions: dict[str, int]
    """Of fedboard, of those that are online; empty text for those that do not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """The round that is under way."""

    asked: int
    """Devices that are asked just now; 0 while the server computes."""
    answered: int
    waiting_for: tuple[str, ...]
    """Names of those who have not answered."""
    until: float
    """When its time is over, seconds since 1970 UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    """All of it."""

    name: str
    running: bool
    """Whether a server works on the state folder."""
    fares: Fares
    epsilon: float
    """Limit of the run."""
    quorum: int
    expected: int
    devices: Devices
    under_way: UnderWay | None
    """None between rounds."""
    expiries: tuple[Expiry, ...]
    """Soonest first."""
    free_bytes: int
    """On the disk of the state folder."""
    now: float
    cosigning: str | None = None
    """Which boards wait for which witnesses; None: none does."""

    @property
    def left(self) -> float:
        """Epsilon."""
        return max(self.epsilon - self.fares.spent, 0.0)

    @property
    def has_quorum(self) -> bool | None:
        """Whether a round can begin; None where that is not known."""
        return None if self.devices.online is None else self.devices.online >= self.quorum

    @property
    def sentence(self) -> str:
        """How many devices are there, and whether that makes a round. Who is busy with an answer may be silent."""
        going = self.under_way is not None or self.has_quorum
        goes_on = f"round {self.fares.made + self.fares.lost} is under way" if going else "no round begins"
        return (
            f"{self.devices.online or 0} of {self.devices.admitted} devices are online and the quorum is "
            f"{self.quorum}: {goes_on}"
        )

    def problems(self) -> list[str]:
        """What the operator should look at, in sentences."""
        found = [] if self.running else ["no server is running on this state folder"]
        devices = self.devices
        if self.has_quorum is False and self.under_way is None:
            found.append(self.sentence)
        if devices.admitted < self.quorum:
            found.append(
                f"{devices.admitted} devices are members and the quorum is {self.quorum}; invite more"
            )
        if self.fares.lost:
            found.append(f"{self.fares.lost} rounds are lost with their budget; rounds.jsonl says why")
        if self.free_bytes < _LEAST_FREE:
            found.append(f"{self.free_bytes / 2**20:,.0f} MiB are free on the disk of the state folder")
        found += [one.sentence(self.now) for one in self.expiries if one.is_soon(self.now)]
        found += [] if self.cosigning is None else [self.cosigning]
        for name in devices.presented_again:
            found.append(
                f"the invitation of {name} was presented by another key too: somebody else has seen it"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """For ``--json`` and the live page."""
        fares, asked = self.fares, self.under_way
        return {
            "name": self.name,
            "running": self.running,
            "rounds": {"planned": fares.planned, "made": fares.made, "lost": fares.lost},
            "epsilon": {"spent": fares.spent, "limit": self.epsilon, "left": self.left},
            "devices": asdict(self.devices),
            "quorum": {"needed": self.quorum, "expected": self.expected, "met": self.has_quorum},
            "under_way": None if asked is None else asdict(asked),
            "expires": [
                {"what": one.what, "place": one.place, "at": one.at, "days": one.days(self.now)}
                for one in self.expiries
            ],
            "free_bytes": self.free_bytes,
            "cosigning": self.cosigning,
            "problems": self.problems(),
        }

    def rows(self) -> list[tuple[str, str]]:
        """For people: what it is about, and how it stands."""
        devices, asked = self.devices, self.under_way
        online = "unknown" if devices.online is None else str(devices.online)
        versions = ", ".join(f"{count} of {name or 'unknown'}" for name, count in devices.versions.items())
        rows = [
            ("server", "running" if self.running else "not running"),
            ("devices", f"{online} online of {devices.admitted} members, {devices.open_invitations} invited"),
            ("quorum", f"{self.quorum} of {self.expected} expected"),
            ("versions", versions or "none online"),
        ]
        if asked is not None:
            left = max(asked.until - self.now, 0.0)
            answers = f"{asked.answered} of {asked.asked} asked, {left:.0f} s left"
            rows.append(
                ("answers", answers if asked.asked else "nobody is asked just now: the round goes on")
            )
            if asked.waiting_for:
                more = len(asked.waiting_for) - _SHOWN
                named = ", ".join(asked.waiting_for[:_SHOWN])
                rows.append(("waiting for", named if more <= 0 else f"{named} and {more} more"))
        rows += [
            ("rounds", self.fares.sentence),
            ("epsilon", f"{self.left:.4g} of {self.epsilon:g} left"),
            ("disk", f"{self.free_bytes / 2**30:,.1f} GiB free"),
        ]
        rows += [(one.what, f"{one.days(self.now):,.0f} days left") for one in self.expiries]
        return rows


def status_of(settings: FleetSettings, *, clock: Callable[[], float] = time.time) -> FleetStatus:
    """From the files of the state folder, as they are.

    Raises:
        StorageError: the register of devices cannot be used.
    """
    state, now = StateFolder.of(settings), clock()
    running = is_locked(state.lock)
    members, invitations, again = list[Member](), 0, tuple[str, ...]()
    if state.members.exists():
        with Register(state.members) as register:
            members, invitations = register.members(), len(register.invitations())
            again = tuple(register.presented_again())
    names = {member.key: member.name for member in members if member.admitted}
    versions, under_way = (_told(state.door, names, now) if running else None) or (None, None)
    return FleetStatus(
        name=settings.name,
        running=running,
        fares=_fares(state),
        epsilon=settings.promise.epsilon,
        quorum=settings.rounds.least,
        expected=settings.rounds.devices,
        devices=Devices(
            admitted=len(names),
            removed=len(members) - len(names),
            online=None if versions is None else len(versions),
            open_invitations=invitations,
            presented_again=again,
            versions=dict(sorted(Counter(versions or ()).items())),
        ),
        under_way=under_way,
        expiries=tuple(sorted(expiries_of(settings), key=lambda one: one.at)),
        free_bytes=shutil.disk_usage(next(p for p in (state.path, *state.path.parents) if p.exists())).free,
        now=now,
        cosigning=Mirror(state.mirror).waiting(),
    )


def _fares(state: StateFolder) -> Fares:
    """By the log, but for what is spent: the ledger also holds what came to no board and to no line."""
    fares, ledger = Fares.of(RoundLog(state.rounds).lines()), state.ledger
    if not ledger.exists():
        return fares
    with Ledger.open(ledger, read_only=True) as held:
        return replace(fares, spent=held.spent().epsilon)


def _told(door: Path, names: Mapping[str, str], now: float) -> tuple[list[str], UnderWay | None] | None:
    """What the server has written of members, whose names these are: the version of fedboard of each that was heard
    from just now, and the question that is under way; None where it says nothing.
    """
    try:
        told = msgspec.json.decode(door.read_bytes(), type=SeenFile)
    except (OSError, msgspec.DecodeError):
        return None
    if abs(now - told.written) > 2 * _LATE_SECONDS + len(told.devices) / 100:  # many are written less often
        return None
    versions = [
        one.version
        for key, one in told.devices.items()
        if key in names and told.written - one.last <= one.may_be_silent_seconds
    ]
    if (asked := told.under_way) is None:
        return versions, None
    waiting = tuple(sorted(names[key] for key in asked.waiting if key in names))
    answered = asked.asked - len(asked.waiting)
    return versions, UnderWay(asked=asked.asked, answered=answered, waiting_for=waiting, until=asked.until)


def expiries_of(settings: FleetSettings) -> list[Expiry]:
    """What of a fleet's server expires: certificates, root, list of devices, signature on the newest board."""
    keys, vouched_by = KeysFolder.of(settings), settings.protocol.settings.get("vouched_by")
    found = [
        certificate_expiry(
            keys.certificate,
            what="the server's certificate",
            remedy=f"renew it: fedboard keys renew {keys.path}",
        ),
        certificate_expiry(
            keys.authority,
            what="the authority",
            remedy="make a new one (fedboard keys new authority) and give it to every device",
        ),
        None if keys.roots is None else root_expiry(keys.roots, what="the root"),
        None if not vouched_by else roster_expiry(keys.roster, authority=str(vouched_by)),
        manifest_expiry(StateFolder.of(settings).mirror, remedy="a running server signs it again by itself"),
    ]
    return [one for one in found if one is not None]


def fleet_families(settings: FleetSettings) -> "Iterator[Metric]":
    """The same for the metrics, afresh."""
    from prometheus_client.core import GaugeMetricFamily

    status = status_of(settings)
    devices = status.devices
    numbers = {
        "fedboard_devices_admitted": ("Devices that may take part.", devices.admitted),
        "fedboard_devices_online": ("Devices that were heard from just now.", devices.online),
        "fedboard_quorum_devices": ("Devices without which no round begins.", status.quorum),
        "fedboard_invitations_open": ("Invitations that can be used.", devices.open_invitations),
        "fedboard_invitations_presented_again": (
            "Invitations that were presented by a second key.",
            len(devices.presented_again),
        ),
        "fedboard_epsilon_limit": ("Epsilon that the run may spend.", status.epsilon),
        "fedboard_boards_waiting": (
            "Whether a board waits for witnesses.",
            int(status.cosigning is not None),
        ),
        "fedboard_disk_free_bytes": ("Free on the disk of the state folder.", status.free_bytes),
    }
    for name, (sentence, value) in numbers.items():
        if value is not None:
            yield GaugeMetricFamily(name, sentence, value=value)
    ends = GaugeMetricFamily("fedboard_expiry_timestamp_seconds", "When it ends.", labels=("what",))
    for one in status.expiries:
        ends.add_metric((one.what,), one.at)
    yield ends
