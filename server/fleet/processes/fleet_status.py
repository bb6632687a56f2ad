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

from fedboard.common.errors import FedboardError
from fedboard.common.files import stamp_of
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.settings import FleetSettings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.work_locks import is_locked
from fedboard.server.fleet.rounds.round_log import RoundLog
from fedboard.server.operating.run_fares import Fares
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

_HEARD_SECONDS = 25.0
"""A device that was silent for longer is gone: its heart beats every 10 s. One that comes without Flower may be
silent for longer, as the door says of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Who takes part."""

    admitted: int
    invited: int
    """Of them, by invitation."""
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
    """Which boards wait for the cosignatures of which witnesses; None: none does."""

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
            found.append(f"not shown yet: {self.waiting}")
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
            "problems": self.problems(),
            "waiting": self.waiting,
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
        epsilon=settings.privacy.epsilon,
        quorum=settings.rounds.quorum,
        expected=settings.rounds.expected_nodes,
        devices=_devices(state, now, running=running),
        expiries=tuple(sorted(expiries_of(settings), key=lambda one: one.at)),
        now=now,
        waiting=_waiting(settings),
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
            invited=0,
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
        invited=sum(member.admitted and member.invited for member in members),
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
        if now - written > max(4 * _HEARD_SECONDS, len(devices) / 100):  # many are written less often
            return None
        return {
            str(key): str(one["version"])
            for key, one in devices.items()
            if written - float(one["last"])
            <= max(_HEARD_SECONDS, float(one.get("may_be_silent_seconds", 0.0)))
        }
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _waiting(settings: FleetSettings) -> str | None:
    try:
        return Mirror(StateFolder.of(settings).mirror).waiting()
    except FedboardError as error:
        return str(error)


def expiries_of(settings: FleetSettings) -> list[Expiry]:
    """What of a fleet's server expires: certificates, root, list of devices, signature on the newest board."""
    network, board, protocol = settings.network, settings.board, settings.protocol
    found = [
        certificate_expiry(
            network.certificate, what="network.certificate", remedy="make a new one: fedboard keys server"
        ),
        certificate_expiry(
            network.authority,
            what="network.authority",
            remedy="make a new one (fedboard keys authority) and give it to every device",
        ),
        None if board.roots is None else root_expiry(board.roots, what="board.roots"),
    ]
    if protocol.roster is not None:
        authority = str(protocol.settings.get("vouched_by", ""))
        found.append(roster_expiry(protocol.roster, authority=authority))
    if board.enabled:
        renewed = "a running server signs it again by itself"
        found.append(manifest_expiry(StateFolder.of(settings).mirror, remedy=renewed))
    return [one for one in found if one is not None]


@dataclass(frozen=True, slots=True)
class Standing:
    """The same for the live page of the operator."""

    settings: FleetSettings

    def signature(self) -> object:
        """Another one after a device has come, gone or been heard from."""
        state = StateFolder.of(self.settings)
        log = state.members.with_name(f"{state.members.name}-wal")  # where changes are written first
        return tuple(map(stamp_of, (state.members, log, state.door)))

    def told(self) -> dict[str, Any]:
        """What the page shows; JSON-able."""
        status = status_of(self.settings)
        devices = status.devices
        return {
            "admitted": devices.admitted,
            "online": devices.online,
            "invited": devices.invited,
            "open_invitations": devices.open_invitations,
            "quorum": status.quorum,
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
    waiting = GaugeMetricFamily(
        "fedboard_boards_waiting", "1 where boards wait for the cosignatures of witnesses."
    )
    waiting.add_metric((), float(status.waiting is not None))
    yield waiting
