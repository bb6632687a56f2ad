"""The sections of ``fleet.toml`` that it has alone; the others are in ``fedboard.server.run_spec``."""

import math
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedboard.common.errors import SettingError
from fedboard.common.tasks.registry import usual
from fedboard.server.publishing.limits import Limits
from fedboard.server.publishing.mirror import USUAL_DAYS
from fedboard.server.run_spec import Section


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
    kernels: Literal["numpy", "compiled"] = "numpy"
    """Which code computes on the server; versions agree to rounding."""

    def __post_init__(self) -> None:
        """Name the algorithm where nobody did."""
        if not self.algorithm:
            msgspec.structs.force_setattr(self, "algorithm", usual(self.feedback))


class CatalogueSection(Section, frozen=True, kw_only=True):
    """The public list of items. It must not depend on who rated what."""

    file: Path
    """A table with columns ``item`` and ``title``, or a titles file of MovieLens."""
    features: Path | None = None
    """Public features of the items, for algorithms that use them."""
    statement: str = "the items of the catalogue"
    """What the certificate says of the data. Public facts only."""


class NetworkSection(Section, frozen=True, kw_only=True):
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
    max_requests_per_minute: int = 6000
    """Of one node, polls among them; >= 1. A large question is fetched in parts, a request each."""
    max_answers_per_minute: int = 600
    """Of one node, greetings and steps among them; >= 1."""
    polls_per_second: float = 100.0
    """Requests for work that devices without Flower (``carrier = "direct"``) are invited to send, all together;
    in (0, 100000]. The number of devices, divided by it, is how long a round waits for the last to come."""
    connections: int = 2000
    """Open at ``port`` at a time; >= 1. Each needs three file descriptors."""
    connections_per_address: int = 256
    """Of them, from one IPv4 address or IPv6 /64 network; >= 0, 0: any number, for a port behind a proxy."""
    idle_seconds: float = 300.0
    """A connection over which nothing goes for so long is closed; > 0."""


class NodeSection(Section, frozen=True, kw_only=True):
    """One admitted device or cohort."""

    name: str
    public_key: str
    """The line of its ``.pub`` file, or the path of that file."""
    max_users: int = 1
    """How many users' answers are taken from it at most; >= 1."""


class EnrolmentSection(Section, frozen=True, kw_only=True):
    """Devices that join with an invitation, while the server runs. Left out: ``[[nodes]]`` alone takes part."""

    address: str
    """``host:port`` where devices reach the server; the server's certificate must be valid for the host."""
    max_devices: int
    """How many may be members at a time, beside ``[[nodes]]``; >= 1. Sums are sized for them."""
    max_users_per_device: int = 1
    """How many users' answers an invitation may let a device bring; >= 1."""
    max_users: int | None = None
    """Of all of them together; max_devices if not given."""
    invitation_hours: float = 24.0
    """How long an invitation may be used, where nothing else is said; in (0, 8760]."""
    carrier: Literal["flower", "direct"] = "flower"
    """How those who join are told to fetch questions: by Flower, or from the door itself."""
    joins_per_minute: int = 300
    """Requests to join that are looked at, of all addresses; >= 1."""
    joins_per_address: int = 10
    """Of them, a minute, from one IPv4 address or IPv6 /64 network; >= 1."""

    @property
    def most_users(self) -> int:
        """Of all enrolled devices."""
        return self.max_devices if self.max_users is None else self.max_users


class BoardSection(Section, frozen=True, kw_only=True):
    """The service that hands boards to readers."""

    enabled: bool = False
    listen: str = "0.0.0.0"
    port: int = 8445
    signing_key: Path | None = None
    """``board-signing.key``, as ``fedboard keys board`` makes it."""
    more_signing_keys: tuple[Path, ...] = ()
    """Further ones, where the root asks for the signatures of several keys."""
    roots: Path | None = None
    """Folder of the root documents that say which keys sign, as ``fedboard keys root`` makes it; None: readers have
    pinned the one key."""
    manifest_days: float = USUAL_DAYS
    """How long a signature on the newest board is good; the server renews it when half of that is over; in
    [0.01, 3660]."""
    witnesses: tuple[str, ...] = ()
    """Public keys of witnesses, 64 hexadecimal digits each, as ``fedboard keys witness`` prints them: a board is
    shown once enough of them have cosigned it."""
    cosignatures: int | None = None
    """How many are enough: more than half of them. None: as few as that."""
    simulation: bool = False
    """Whether to hand out boards whose noise can be reproduced from its seed, marked as simulations."""
    metrics_port: int | None = None
    """Health and metrics over HTTP, on 127.0.0.1 only; None: not served."""
    limits: Limits = Limits()
    """``[board.limits]``: what the service takes on; see ``server/publishing/limits.py``."""


class QuestionsSection(Section, frozen=True, kw_only=True):
    """Questions to the people of the fleet (``fedboard ask --fleet``). Left out: none are asked."""

    epsilon: float
    """Of the training and of all questions together, at privacy.delta; finite and > 0."""
    alone: bool = False
    """Whether there is no training: the server waits for questions, and all of epsilon is for them."""

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            SettingError: names the key.
        """
        if not 0 < self.epsilon < math.inf:
            raise SettingError(f"questions.epsilon must be a finite number > 0, got {self.epsilon}")
