"""The one file that a fleet's server is run by, ``fleet.toml``: thirty keys; whatever else counts is derived."""

import math
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedboard.common.algorithms.registry import usual
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.checks import sentence_of
from fedboard.common.errors import InputError, SettingError
from fedboard.common.messages.addresses import Address, parse_address
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.protocols.properties import has_second_server
from fedboard.common.protocols.registry import USUAL, names_where, says
from fedboard.server.fleet.register import MOST_USERS, Capacity
from fedboard.server.run_spec import Promise, RoundPace, Section, require

NAME_RULE = "letters, digits, '.', '_' and '-', at most 64, the first a letter or a digit"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEY = re.compile(r"[0-9a-f]{64}")
_LEAST_DEADLINE, _MOST_DEADLINE = 0.01, 250_000.0
_PATIENCE = 20.0
"""A round waits a twentieth of its deadline for whoever is late, and asks again after as long."""
_ATTEMPTS = 3


def is_name(text: str) -> bool:
    """Whether this can name a run or a device, and a file."""
    return _NAME.fullmatch(text) is not None


class TaskSection(Section, frozen=True, kw_only=True):
    """What is learnt."""

    algorithm: str = ""
    """A private algorithm by name, as ``fedboard simulate --algorithm`` takes it; empty for the usual one."""
    feedback: Literal["explicit", "implicit"] = "explicit"
    rating_range: tuple[float, float] = (1.0, 5.0)
    """Public range of ratings, inclusive."""
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Overrides of the algorithm's tuned defaults."""
    shares: dict[str, float] = msgspec.field(default_factory=dict)
    """Overrides of how the budget is shared among its releases."""

    def __post_init__(self) -> None:
        """Name the algorithm where nobody did, and check the range.

        Raises:
            SettingError: names the key.
        """
        if not self.algorithm:
            msgspec.structs.force_setattr(self, "algorithm", usual(self.feedback))
        low, high = self.rating_range
        require(low < high, f"task.rating_range must be LOW < HIGH, got {low:g} and {high:g}")


class PrivacySection(Section, frozen=True, kw_only=True):
    """What every user is promised."""

    epsilon: float | None = None
    """Of the whole training; finite and > 0. Left out: there is no training, and the server waits for queries."""
    delta: float = 1e-5
    """Probability that the bound fails; in (0, 1), well below one over the number of users."""
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    """``add-remove`` or ``replace``."""
    seed: int | None = None
    """Given: noise that can be repeated and protects nobody, for trials; boards are marked as simulations."""


class CatalogueSection(Section, frozen=True, kw_only=True):
    """The public list of items. It must not depend on who rated what."""

    file: Path
    """A table with columns ``item`` and ``title``, or a titles file of MovieLens."""
    features: Path | None = None
    """Public features of the items, for algorithms that use them."""
    statement: str = "the items of the catalogue"
    """What the certificate says of the data. Public facts only."""


class RoundsSection(Section, frozen=True, kw_only=True):
    """When a round begins and ends."""

    devices: int
    """A round begins when as many are there, and is complete after as many answers; >= 1."""
    quorum: int | None = None
    """Fewest answers that make a round; nobody is asked before as many devices are there. In [1, devices]; two of
    three if not given."""
    deadline_seconds: float = 600.0
    """How long a round waits for answers, the first time; in [0.01, 250000]."""
    most_lost: float = 0.2
    """A training that lost more of its rounds ends with exit code 6, and ``/healthz`` fails; in [0, 1]."""

    def __post_init__(self) -> None:
        """Fill in the quorum and check the ranges.

        Raises:
            SettingError: names the key.
        """
        require(self.devices >= 1, f"rounds.devices must be >= 1, got {self.devices}")
        if self.quorum is None:
            msgspec.structs.force_setattr(self, "quorum", self.devices - self.devices // 3)
        require(
            1 <= self.least <= self.devices,
            f"rounds.quorum must be in [1, rounds.devices] = [1, {self.devices}], got {self.quorum}",
        )
        require(
            _LEAST_DEADLINE <= self.deadline_seconds <= _MOST_DEADLINE,
            f"rounds.deadline_seconds must be in [{_LEAST_DEADLINE:g}, {_MOST_DEADLINE:.0f}], got "
            f"{self.deadline_seconds:g}",
        )
        require(0 <= self.most_lost <= 1, f"rounds.most_lost must be in [0, 1], got {self.most_lost:g}")

    @property
    def least(self) -> int:
        """The quorum."""
        assert self.quorum is not None
        return self.quorum

    @property
    def pace(self) -> RoundPace:
        """All times of a round, which follow from its deadline."""
        patience = self.deadline_seconds / _PATIENCE
        return RoundPace(
            expected_nodes=self.devices,
            quorum=self.least,
            deadline_seconds=self.deadline_seconds,
            attempts=_ATTEMPTS,
            most_lost=self.most_lost,
            grace_seconds=patience,
        )


class ProtocolSection(Section, frozen=True, kw_only=True):
    """How contributions become sums, and so whom that asks to be trusted."""

    name: str = USUAL
    """One of ``fedboard protocols show``."""
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    """Overrides of what is chosen for the fleet, by parameter name."""
    helper: str | None = None
    """HOST:PORT of the second server, where the protocol has one; somebody else runs it."""

    def __post_init__(self) -> None:
        """Check that there is a second server where the protocol has one, and nowhere else.

        Raises:
            InputError: names the key.
        """
        require(
            (self.helper is not None) == says(self.name, has_second_server),
            f"protocol.helper is needed for {names_where(has_second_server)}, and for nothing else",
        )
        if self.helper is not None:
            parse_address(self.helper, name="protocol.helper")


class NetworkSection(Section, frozen=True, kw_only=True):
    """Where devices and the operator's tools find the server."""

    address: str = "127.0.0.1:8443"
    """HOST:PORT that devices use; the server's certificate must be valid for the host."""
    listen: str | None = None
    """HOST:PORT that the server listens on; every address of this machine at the same port if not given, and
    127.0.0.1 where devices use that."""
    ops: str = "127.0.0.1:8444"
    """HOST:PORT of metrics, health and the live report, without TLS: on loopback, or where nobody else comes."""

    def __post_init__(self) -> None:
        """Check the addresses.

        Raises:
            InputError: names the key.
        """
        parse_address(self.address, name="network.address")
        listen, ops = self.listening, parse_address(self.ops, name="network.ops")
        require(listen.port != ops.port, "network.ops must have another port than network.listen")

    @property
    def reached(self) -> Address:
        """Where devices come."""
        return parse_address(self.address, name="network.address")

    @property
    def listening(self) -> Address:
        """Where the server listens for them."""
        if self.listen is not None:
            return parse_address(self.listen, name="network.listen")
        host, port = self.reached
        return Address("127.0.0.1" if host in ("127.0.0.1", "localhost") else "0.0.0.0", port)


class MembersSection(Section, frozen=True, kw_only=True):
    """How many devices join, each with an invitation. Sums are sized for them."""

    most: int | None = None
    """Devices at a time; >= rounds.devices, which it is if not given."""
    users: int | None = None
    """People behind all of them; >= most, which it is if not given: one person a device. More is for gateways."""


class BoardsSection(Section, frozen=True, kw_only=True):
    """Who cosigns boards before they are published."""

    witnesses: tuple[str, ...] = ()
    """Public keys of the witnesses, 64 hex digits each (``fedboard keys new witness``); none: nobody cosigns."""
    cosignatures: int | None = None
    """Of how many of them a board needs; more than half, and as many as that takes if not given."""

    def __post_init__(self) -> None:
        """Check that two boards of one version cannot both have enough of them.

        Raises:
            SettingError: names the key.
        """
        for key in self.witnesses:
            require(
                _KEY.fullmatch(key) is not None,
                f"boards.witnesses must be public keys of 64 hex digits in lower case, got {key!r}",
            )
        try:
            _ = self.cosigners
        except InputError as error:
            raise SettingError(f"boards: {error}") from None

    @property
    def cosigners(self) -> Witnesses | None:
        """Who must cosign a board before it is published; None: nobody."""
        return Witnesses.of(self.witnesses, self.cosignatures)


class QueriesSection(Section, frozen=True, kw_only=True):
    """Private queries to the people of the fleet (``fedboard query --fleet``). Left out: none are put."""

    epsilon: float
    """Of the training and of all queries together, at privacy.delta; finite and > 0."""

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            SettingError: names the key.
        """
        require(
            0 < self.epsilon < math.inf, f"queries.epsilon must be a finite number > 0, got {self.epsilon}"
        )


class FleetSettings(Section, frozen=True, kw_only=True):
    """All of ``fleet.toml``. Paths are relative to its folder."""

    name: str
    """Of the training run; part of every question to a device."""
    state: Path
    """Folder of all that must survive: ledger, boards, members; ``state`` if not given."""
    keys: Path
    """Folder of keys and certificates, by fixed names (``KeysFolder``); ``keys`` if not given."""
    task: TaskSection = TaskSection()
    privacy: PrivacySection = PrivacySection()
    catalogue: CatalogueSection
    rounds: RoundsSection
    protocol: ProtocolSection = ProtocolSection()
    network: NetworkSection = NetworkSection()
    members: MembersSection = MembersSection()
    boards: BoardsSection = BoardsSection()
    queries: QueriesSection | None = None

    def __post_init__(self) -> None:
        """Check ranges, and that the numbers go together.

        Raises:
            SettingError: names the key.
        """
        require(is_name(self.name), f"name must be {NAME_RULE}")
        trained, queries = self.privacy.epsilon, self.queries
        require(
            trained is not None or queries is not None,
            "privacy.epsilon is missing: what the training may cost every user. Without a training, give "
            "queries.epsilon",
        )
        _ = self.promise
        require(
            queries is None or trained is None or queries.epsilon > trained,
            "queries.epsilon is of the training too: it must be larger than privacy.epsilon; without a training, "
            "leave privacy.epsilon out",
        )
        most, users = self.members.most, self.members.users
        require(
            most is None or most >= self.rounds.devices,
            f"members.most must be >= rounds.devices = {self.rounds.devices}, got {most}",
        )
        devices = self.capacity.devices
        require(
            devices <= self.capacity.users <= MOST_USERS,
            f"members.users must be in [members.most, {MOST_USERS}] = [{devices}, {MOST_USERS}], got {users}",
        )

    @property
    def alone(self) -> bool:
        """Whether there is no training, and the server waits for queries."""
        return self.privacy.epsilon is None

    @property
    def promise(self) -> Promise:
        """What every user is promised over the training; without one, over all queries."""
        privacy, queries = self.privacy, self.queries
        epsilon = queries.epsilon if privacy.epsilon is None and queries is not None else privacy.epsilon
        assert epsilon is not None
        return Promise(
            epsilon=epsilon,
            delta=privacy.delta,
            adjacency=privacy.adjacency,
            noise="seeded" if self.simulated else "secure",
            seed=privacy.seed or 0,
        )

    @property
    def simulated(self) -> bool:
        """Whether noise is seeded, and boards are marked."""
        return self.privacy.seed is not None

    @property
    def capacity(self) -> Capacity:
        """How many members there may be at a time, and people behind all of them."""
        devices = self.rounds.devices if self.members.most is None else self.members.most
        return Capacity(devices=devices, users=devices if self.members.users is None else self.members.users)


def read_settings(path: Path) -> FleetSettings:
    """Read and check ``fleet.toml``.

    Raises:
        InputError: no such file, not TOML, an unknown key, a wrong type or a value out of range.
    """
    folder = path.absolute().parent
    try:
        raw = {"state": "state", "keys": "keys", **tomllib.loads(path.read_text(encoding="utf-8"))}
        return msgspec.convert(raw, FleetSettings, dec_hook=lambda _, text: folder / str(text))
    except OSError as error:
        raise InputError(f"{path}: no configuration can be read there ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(f"{path}: {sentence_of(error, FleetSettings)}") from error
    except InputError as error:  # of an address
        raise InputError(f"{path}: {error}") from error
