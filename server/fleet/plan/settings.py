"""The one file that a fleet's server is run by: ``fleet.toml``."""

import math
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.keys.node_keys import public_key_pem
from fedboard.common.privacy.adjacency import OF_TRAININGS, Adjacency
from fedboard.common.wire.addresses import parse_address
from fedboard.server.board_service.limits import Limits
from fedboard.server.fleet.plan.job import MOST_ATTEMPTS, MOST_USERS

NAME_RULE = "letters, digits, '.', '_' and '-', at most 64, the first a letter or a digit"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MOST_SECONDS = 1e6


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Common to all sections: immutable, keyword-only, misspelt keys are errors."""


class TaskSection(_Section, frozen=True, kw_only=True):
    """What is learnt."""

    algorithm: str = "residual"
    """A private algorithm by name, as in ``fedboard simulate --algorithm``."""
    feedback: Literal["explicit", "implicit"] = "explicit"
    rating_range: tuple[float, float] = (1.0, 5.0)
    """Public range of ratings, inclusive."""
    settings: dict[str, Any] = {}
    """Overrides of the algorithm's tuned defaults."""
    shares: dict[str, float] = {}
    """Overrides of how the budget is shared among its releases."""
    kernels: Literal["numpy", "plain", "blocked"] = "numpy"
    """Which code computes on the server; versions agree to rounding."""


class PrivacySection(_Section, frozen=True, kw_only=True):
    """The promise to every user."""

    epsilon: float
    """Of the whole training; > 0."""
    delta: float = 1e-5
    """In (0, 1)."""
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    noise: Literal["secure", "seeded"] = "secure"
    """``seeded`` repeats bit for bit and protects nobody: for trials only."""
    seed: int = 0
    """Of the first factors, and of seeded noise; >= 0. Public."""


class CatalogueSection(_Section, frozen=True, kw_only=True):
    """The public list of items. It must not depend on who rated what."""

    file: Path
    """A table with columns ``item`` and ``title``, or a titles file of MovieLens."""
    features: Path | None = None
    """Public features of the items, for algorithms that use them."""
    statement: str = "the items of the catalogue"
    """What the certificate says of the data. Public facts only."""


class RoundsSection(_Section, frozen=True, kw_only=True):
    """When a round begins and ends."""

    expected_nodes: int
    """A round begins when as many nodes are there; >= 1."""
    quorum: int
    """Fewest answers that make a round; nobody is asked before as many nodes were heard from. In [1,
    expected_nodes]."""
    deadline_seconds: float = 600.0
    """How long a round waits for answers, at least; > 0. Where nodes took long so far it is four times what the
    slowest took, and it doubles each time a round is asked again."""
    longest_deadline_seconds: float | None = None
    """To which it may grow; >= deadline_seconds. Four times deadline_seconds if not given."""
    attempts: int = 3
    """How often a round that lacks its quorum is asked, with the same question, before it is given up and its
    budget is lost; in [1, 100]."""
    most_lost: float = 0.2
    """A training that lost a larger share of its rounds ends with exit code 6, and ``/healthz`` fails; in [0,
    1]."""
    poll_seconds: float = 0.2
    """How often the server looks for answers; in [0.01, 60]."""
    grace_seconds: float = 30.0
    """How long a round that has its quorum waits for expected nodes that are not there; > 0."""
    resend_seconds: float = 30.0
    """A node that has not answered for so long is asked again; > 0."""
    form: Literal["factored", "dense"] = "factored"
    """Of the answers; ``dense`` is smaller for cohorts of many users."""


class HelperSection(_Section, frozen=True, kw_only=True):
    """The second server of ``two-server``; somebody else runs it."""

    address: str
    """``host:port``."""
    authority: Path
    """PEM file of the authority that vouches for it."""
    identity: str
    """Of its key, as ``fedboard helper`` prints it; every device names the same in its policy."""
    token: Path | None = None
    """File with the secret that it asks for; only its owner can read it."""

    def __post_init__(self) -> None:
        """Check the address.

        Raises:
            ValueError: it is none.
        """
        try:
            parse_address(self.address, name="protocol.helper.address")
        except InputError as error:
            raise ValueError(str(error)) from None


class ProtocolSection(_Section, frozen=True, kw_only=True):
    """How contributions become sums, and so whom that asks to be trusted."""

    name: str = "trusted"
    """``trusted``, ``secure-sum``, ``distributed-dp``, ``two-server`` or ``local``."""
    settings: dict[str, Any] = {}
    """Overrides of what is chosen for the fleet, by parameter name."""
    step_seconds: float | None = None
    """How long one step waits for replies; a quarter of ``rounds.deadline_seconds`` if not given."""
    helper: HelperSection | None = None


class NetworkSection(_Section, frozen=True, kw_only=True):
    """Who listens where, and with which certificate."""

    listen: str = "0.0.0.0"
    """Address that devices reach; only the fleet's own requests are let through there."""
    port: int = 8443
    superlink_port: int = 8444
    """Flower's SuperLink, on 127.0.0.1 only. Whoever reaches it can run code here."""
    certificate: Path
    """PEM file of the server's certificate, valid for 127.0.0.1 and the name that devices use."""
    key: Path
    """Its private key, PEM."""
    authority: Path
    """PEM file of the authority that signed it; every device has a copy."""
    question_key: Path
    """``question-signing.key``, as ``fedboard keys questions`` makes it; every device has the public half."""
    max_request_megabytes: int = 64
    """Larger requests are refused; >= 1."""
    max_megabytes_per_minute: int = 1000
    """Of one node; a node that sends more has to wait; >= max_request_megabytes."""
    connections: int = 2000
    """Open at ``port`` at a time; >= 1. Each needs three file descriptors."""
    connections_per_address: int = 256
    """Of them, from one IPv4 address or IPv6 /64 network; >= 0, 0: any number, for a port behind a proxy."""
    idle_seconds: float = 300.0
    """A connection over which nothing goes for so long is closed; > 0."""


class NodeSection(_Section, frozen=True, kw_only=True):
    """One admitted device or cohort."""

    name: str
    public_key: str
    """The line of its ``.pub`` file, or the path of that file."""
    max_users: int = 1
    """How many users' answers are taken from it at most; >= 1."""


class BoardSection(_Section, frozen=True, kw_only=True):
    """The service that hands boards to readers."""

    enabled: bool = False
    listen: str = "0.0.0.0"
    port: int = 8445
    signing_key: Path | None = None
    """``board-signing.key``, as ``fedboard keys board`` makes it."""
    simulation: bool = False
    """Whether to hand out boards whose noise can be reproduced from its seed, marked as simulations."""
    metrics_port: int | None = None
    """Health and metrics over HTTP, on 127.0.0.1 only; None: not served."""
    limits: Limits = Limits()
    """``[board.limits]``: what the service takes on; see ``server/board_service/limits.py``."""


class FleetSettings(_Section, frozen=True, kw_only=True):
    """All of ``fleet.toml``. Paths are relative to its folder."""

    name: str
    """Of the training run; part of every question to a device."""
    state: Path
    """Folder of all that must survive: ledger, boards, SuperLink's database, logs; ``state`` if not given."""
    task: TaskSection = TaskSection()
    privacy: PrivacySection
    catalogue: CatalogueSection
    rounds: RoundsSection
    protocol: ProtocolSection = ProtocolSection()
    network: NetworkSection
    nodes: tuple[NodeSection, ...]
    board: BoardSection = BoardSection()

    def __post_init__(self) -> None:
        """Check ranges, and that the numbers go together.

        Raises:
            ValueError: names the key (``read_settings`` turns it into an InputError).
        """
        for rule, holds in self._rules().items():
            if not holds:
                raise ValueError(rule)

    def _rules(self) -> dict[str, bool]:
        ports = [self.network.port, self.network.superlink_port]
        ports += [self.board.port] if self.board.enabled else []
        ports += [] if self.board.metrics_port is None else [self.board.metrics_port]
        low, high = self.task.rating_range
        names = [node.name for node in self.nodes]
        rounds = self.rounds
        return {
            f"name must be {NAME_RULE}": is_name(self.name),
            "task.rating_range must be LOW < HIGH": low < high,
            "privacy.epsilon must be a finite number > 0": 0 < self.privacy.epsilon < math.inf,
            "privacy.delta must be in (0, 1)": 0 < self.privacy.delta < 1,
            f"privacy.adjacency must be {' or '.join(OF_TRAININGS)}": self.privacy.adjacency in OF_TRAININGS,
            "privacy.seed must be >= 0": self.privacy.seed >= 0,
            "rounds.expected_nodes must be >= 1": rounds.expected_nodes >= 1,
            "rounds.expected_nodes must be at most the number of [[nodes]]": rounds.expected_nodes
            <= len(self.nodes),
            "rounds.quorum must be in [1, expected_nodes]": 1 <= rounds.quorum <= rounds.expected_nodes,
            "rounds.deadline_seconds must be in (0, 1000000)": 0 < rounds.deadline_seconds < _MOST_SECONDS,
            "rounds.longest_deadline_seconds must be in [rounds.deadline_seconds, 1000000)": (
                rounds.longest_deadline_seconds is None
                or rounds.deadline_seconds <= rounds.longest_deadline_seconds < _MOST_SECONDS
            ),
            f"rounds.attempts must be in [1, {MOST_ATTEMPTS}]": 1 <= rounds.attempts <= MOST_ATTEMPTS,
            "rounds.most_lost must be in [0, 1]": 0 <= rounds.most_lost <= 1,
            "rounds.grace_seconds must be in (0, 1000000)": 0 < rounds.grace_seconds < _MOST_SECONDS,
            "rounds.resend_seconds must be in (0, 1000000)": 0 < rounds.resend_seconds < _MOST_SECONDS,
            "rounds.poll_seconds must be in [0.01, 60]": 0.01 <= rounds.poll_seconds <= 60,
            "protocol.step_seconds must be in (0, rounds.deadline_seconds]": self.protocol.step_seconds
            is None
            or 0 < self.protocol.step_seconds <= rounds.deadline_seconds,
            "protocol.helper is needed for two-server, and for nothing else": (
                (self.protocol.helper is not None) == (self.protocol.name == "two-server")
            ),
            "rounds.form is of protocol trusted alone": rounds.form == "factored"
            or self.protocol.name == "trusted",
            "ports must be in [1, 65535]": all(1 <= port <= 65535 for port in ports),
            "ports must differ (port, superlink_port, board.port, metrics_port)": len(set(ports))
            == len(ports),
            "network.max_request_megabytes must be >= 1": self.network.max_request_megabytes >= 1,
            "network.max_megabytes_per_minute must be >= network.max_request_megabytes": (
                self.network.max_megabytes_per_minute >= self.network.max_request_megabytes
            ),
            "network.connections must be >= 1": self.network.connections >= 1,
            "network.connections_per_address must be >= 0": self.network.connections_per_address >= 0,
            "network.idle_seconds must be in (0, 1000000)": 0 < self.network.idle_seconds < _MOST_SECONDS,
            "nodes.name must be given once each": len(set(names)) == len(names),
            "nodes.max_users must be >= 1": all(node.max_users >= 1 for node in self.nodes),
            f"nodes.max_users must add to at most {MOST_USERS}": sum(node.max_users for node in self.nodes)
            <= MOST_USERS,
            "board.signing_key is needed where board.enabled is true": not self.board.enabled
            or self.board.signing_key is not None,
            'board.simulation must be true where board.enabled is and privacy.noise is "seeded": anybody who knows '
            "the seed can remove the noise from such boards": not self.board.enabled
            or self.board.simulation
            or self.privacy.noise == "secure",
        }

    @property
    def public_keys(self) -> dict[str, NodeSection]:
        """The admitted nodes by public key, PEM text as Flower keeps it.

        Raises:
            InputError: a key is none, or two nodes have the same.
        """
        found: dict[str, NodeSection] = {}
        for node in self.nodes:
            pem = public_key_pem(node.public_key, source=f"nodes: public_key of {node.name!r}")
            if pem in found:
                raise InputError(f"nodes: {node.name!r} has the same public_key as {found[pem].name!r}")
            found[pem] = node
        return found


def is_name(text: str) -> bool:
    """Whether this can name a run or a node, and a file."""
    return _NAME.fullmatch(text) is not None


def read_settings(path: Path) -> FleetSettings:
    """Read and check ``fleet.toml``.

    Raises:
        InputError: no such file, not TOML, an unknown key, a wrong type or a value out of range.
    """
    folder = path.absolute().parent
    try:
        raw = {"state": "state", **tomllib.loads(path.read_text(encoding="utf-8"))}
        settings = msgspec.convert(raw, FleetSettings, dec_hook=lambda _, text: folder / str(text))
    except OSError as error:
        raise InputError(f"{path}: no configuration can be read there ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(f"{path}: {error}") from error
    nodes = tuple(
        msgspec.structs.replace(node, public_key=_key_line(node, folder)) for node in settings.nodes
    )
    return msgspec.structs.replace(settings, nodes=nodes)


def _key_line(node: NodeSection, folder: Path) -> str:
    if node.public_key.startswith("ecdsa-"):
        return node.public_key
    place = folder / node.public_key
    try:
        return place.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"nodes: the public_key of {node.name!r} cannot be read at {place}") from error


__all__ = [
    "NAME_RULE",
    "BoardSection",
    "CatalogueSection",
    "FleetSettings",
    "HelperSection",
    "NetworkSection",
    "NodeSection",
    "PrivacySection",
    "ProtocolSection",
    "RoundsSection",
    "TaskSection",
    "is_name",
    "read_settings",
]
