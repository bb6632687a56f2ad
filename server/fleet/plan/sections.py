"""The sections of ``fleet.toml``: every key, its default and what it means."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.protocols.registry import USUAL
from fedboard.common.wire.addresses import parse_address
from fedboard.server.board_service.limits import Limits


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Common to all sections: immutable, keyword-only, misspelt keys are errors."""


class TaskSection(Section, frozen=True, kw_only=True):
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


class PrivacySection(Section, frozen=True, kw_only=True):
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


class HelperSection(Section, frozen=True, kw_only=True):
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


class ProtocolSection(Section, frozen=True, kw_only=True):
    """How contributions become sums, and so whom that asks to be trusted."""

    name: str = USUAL
    """One of ``fedboard protocols list``."""
    settings: dict[str, Any] = {}
    """Overrides of what is chosen for the fleet, by parameter name."""
    step_seconds: float | None = None
    """How long one step waits for replies; a quarter of ``rounds.deadline_seconds`` if not given."""
    helper: HelperSection | None = None


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


class BoardSection(Section, frozen=True, kw_only=True):
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


__all__ = [
    "BoardSection",
    "CatalogueSection",
    "HelperSection",
    "NetworkSection",
    "NodeSection",
    "PrivacySection",
    "ProtocolSection",
    "RoundsSection",
    "Section",
    "TaskSection",
]
