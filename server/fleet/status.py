"""How a fleet stands: who is there, whether a round can begin, what is spent, lost, or about to expire.

From files alone, whether its server runs or not. For the operator: how many devices are there depends on people in
ways that no budget covers.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.settings import FleetSettings
from fedboard.server.fleet.plan.state_folder import KeysFolder, StateFolder
from fedboard.server.fleet.rounds.round_log import RoundLog
from fedboard.server.operating.run_fares import Fares
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.expiring import (
    Expiry,
    certificate_expiry,
    manifest_expiry,
    root_expiry,
    roster_expiry,
)

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_LATE_SECONDS = 100.0
"""A running server that has written nothing for so long says nothing of who is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Who takes part."""

    admitted: int
    removed: int
    online: int | None
    """Heard from just now; None where no server runs, or the door has not said so yet."""
    open_invitations: int
    presented_again: tuple[str, ...]
    """Whose invitation somebody else presented too."""
    versions: dict[str, int]
    """Of fedboard, of those that are online; empty text for those that do not say."""


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
    expiries: tuple[Expiry, ...]
    """Soonest first."""
    now: float
    waiting: str | None = None
    """Which boards wait for which witnesses; None: none does."""

    @property
    def left(self) -> float:
        """Epsilon."""
        return max(self.epsilon - self.fares.spent, 0.0)

    @property
    def has_quorum(self) -> bool | None:
        """Whether a round can begin; None where that is not known."""
        return None if self.devices.online is None else self.devices.online >= self.quorum

    def problems(self) -> list[str]:
        """What the operator should look at, in sentences."""
        found = [] if self.running else ["no server is running on this state folder"]
        devices = self.devices
        if self.has_quorum is False:
            found.append(
                f"{devices.online} devices are online and the quorum is {self.quorum}: no round begins"
            )
        if devices.admitted < self.quorum:
            found.append(
                f"{devices.admitted} devices are members and the quorum is {self.quorum}; invite more"
            )
        if self.fares.lost:
            found.append(f"{self.fares.lost} rounds are lost with their budget; rounds.jsonl says why")
        found += [one.sentence(self.now) for one in self.expiries if one.is_soon(self.now)]
        if self.waiting is not None:
            found.append(self.waiting)
        for name in devices.presented_again:
            found.append(
                f"the invitation of {name} was presented by another key too: somebody else has seen it"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """For ``--json`` and the live page."""
        fares = self.fares
        return {
            "name": self.name,
            "running": self.running,
            "rounds": {"planned": fares.planned, "made": fares.made, "lost": fares.lost},
            "epsilon": {"spent": fares.spent, "limit": self.epsilon, "left": self.left},
            "devices": asdict(self.devices),
            "quorum": {"needed": self.quorum, "expected": self.expected, "met": self.has_quorum},
            "expires": [
                {"what": one.what, "place": one.place, "at": one.at, "days": one.days(self.now)}
                for one in self.expiries
            ],
            "waiting": self.waiting,
            "problems": self.problems(),
        }


def status_of(settings: FleetSettings, *, clock: Callable[[], float] = time.time) -> FleetStatus:
    """From the files of the state folder, as they are.

    Raises:
        StorageError: the register of devices cannot be used.
    """
    state, now = StateFolder.of(settings), clock()
    running = state.lock.exists() and is_locked(state.lock)
    return FleetStatus(
        name=settings.name,
        running=running,
        fares=_fares(state),
        epsilon=settings.promise.epsilon,
        quorum=settings.rounds.least,
        expected=settings.rounds.devices,
        devices=_devices(state, now, running=running),
        expiries=tuple(sorted(expiries_of(settings), key=lambda one: one.at)),
        now=now,
        waiting=Mirror(state.mirror).waiting(),
    )


def _fares(state: StateFolder) -> Fares:
    """By the log, but for what is spent: the ledger also holds what came to no board and to no line."""
    fares, ledger = Fares.of(RoundLog(state.run / "rounds.jsonl").lines()), state.run / "ledger.sqlite"
    if not ledger.exists():
        return fares
    with Ledger.open(ledger, read_only=True) as held:
        return replace(fares, spent=held.spent().epsilon)


def _devices(state: StateFolder, now: float, *, running: bool) -> Devices:
    if not state.members.exists():
        return Devices(
            admitted=0,
            removed=0,
            online=None,
            open_invitations=0,
            presented_again=(),
            versions={},
        )
    with Register(state.members) as register:
        members, invitations = register.members(), register.invitations()
        again = tuple(register.presented_again())
    admitted = {member.key for member in members if member.admitted}
    online = _online(state.door, now) if running else None
    there = {} if online is None else {key: version for key, version in online.items() if key in admitted}
    return Devices(
        admitted=len(admitted),
        removed=sum(member.removed is not None for member in members),
        online=None if online is None else len(there),
        open_invitations=len(invitations),
        presented_again=again,
        versions=dict(sorted(Counter(there.values()).items())),
    )


def _online(door: Path, now: float) -> dict[str, str] | None:
    """Public key to version of fedboard of devices that the door just heard from; None where it says nothing."""
    try:
        told = json.loads(door.read_text(encoding="utf-8"))
        written, devices = float(told["written"]), dict(told["devices"])
        if abs(now - written) > max(_LATE_SECONDS, len(devices) / 100):  # many are written less often
            return None
        return {
            str(key): str(one["version"])
            for key, one in devices.items()
            if written - float(one["last"])
            <= float(one["may_be_silent_seconds"])
        }
    except (OSError, ValueError, LookupError, TypeError):
        return None


def expiries_of(settings: FleetSettings) -> list[Expiry]:
    """What of a fleet's server expires: certificates, root, list of devices, signature on the newest board."""
    keys, state = KeysFolder.of(settings), StateFolder.of(settings)
    renewed = f"make a new one: fedboard keys renew {keys.path}"
    found = [
        certificate_expiry(keys.certificate, what="the server's certificate", remedy=renewed),
        certificate_expiry(
            keys.authority,
            what="the authority",
            remedy="make a new one (fedboard keys new authority) and give it to every device",
        ),
        None if keys.roots is None else root_expiry(keys.roots, what="the root"),
        manifest_expiry(state.mirror, remedy="a running server signs it again by itself"),
    ]
    if authority := str(settings.protocol.settings.get("vouched_by", "")):
        found.append(roster_expiry(keys.roster, authority=authority))
    return [one for one in found if one is not None]


def standing_of(settings: FleetSettings) -> dict[str, Any]:
    """The same for the live report of the operator; JSON-able."""
    status = status_of(settings)
    devices = status.devices
    return {
        "admitted": devices.admitted,
        "online": devices.online,
        "open_invitations": devices.open_invitations,
        "quorum": status.quorum,
        "expected": status.expected,
        "versions": devices.versions,
        "expires": [{"what": one.what, "at": one.at} for one in status.expiries],
        "problems": status.problems(),
    }


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
    }
    for name, (sentence, value) in numbers.items():
        if value is not None:
            yield GaugeMetricFamily(name, sentence, value=value)
    ends = GaugeMetricFamily("fedboard_expiry_timestamp_seconds", "When it ends.", labels=("what",))
    for one in status.expiries:
        ends.add_metric((one.what,), one.at)
    yield ends
