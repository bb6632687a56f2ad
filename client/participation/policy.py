"""The sections of a device's configuration: a person's participation policy (what they are willing to give, to
whom, under which promise: their own choice), ratings, server and boards.
"""

import re
from pathlib import Path

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.messages.addresses import parse_address
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.adjacency import Adjacency

_IDENTITY = re.compile("[0-9a-fA-F]{64}")
_AUTHORITY = re.compile("[0-9a-f]{64}")


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The section ``[policy]`` of a device's configuration. A list that is left out allows everything, but
    for ``questions``.
    """

    epsilon: float
    """Limit on everything that this device will ever give, over all runs; > 0."""
    delta: float = 1e-6
    """Of that limit; in (0, 1), well below one over the number of users."""
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    """What neighbouring means in that limit; a run with another one is refused."""
    epsilon_per_run: float | None = None
    """Limit on what one run may cost her, at the same delta; None for the whole limit."""
    scale_down: bool = False
    """Where a run costs more than is left: give a smaller part of herself in all its rounds, or refuse it."""
    smallest_scale: float = 0.1
    """Below this part she gives nothing; in (0, 1]."""
    least_noise: float = 0.0
    """Smallest noise multiplier of any single release; >= 0."""
    runs: tuple[str, ...] | None = None
    """Patterns of names of the runs that may ask, such as ``films-*``."""
    tasks: tuple[str, ...] | None = None
    """Names of the tasks, such as ``residual``."""
    questions: tuple[str, ...] = ()
    """Patterns of the questions that are answered, by their titles, such as ``mean of ratings`` or ``* of counts``.
    Left out: none. Whoever joined for recommendations has not agreed to be asked about anything else."""
    epsilon_of_questions: float | None = None
    """Limit on what all questions together may cost her, at the same delta, so that they leave something for the
    trainings; None for the whole limit."""
    protocols: tuple[str, ...] | None = None
    """Names of the aggregation protocols, such as ``trusted``."""
    least_survivors: int = 2
    """Where contributions are masked: fewest clients in a sum, of a server that keeps to the protocol; >= 2."""
    most_honest: int | None = 1000
    """Where clients add the noise: the largest number of honest clients that a run may count on; None for any."""
    helper: str | None = None
    """Identity of the second server that she relies on, as ``fedboard helper`` prints it; without it no run of two
    servers is answered."""
    vouched_by: str | None = None
    """Public key of the authority that she believes about other devices, as ``fedboard keys sign`` prints it;
    with it no masked sum is answered whose clients nobody vouches for, or somebody else."""
    least_colluding: float = 0.1
    """Where ``vouched_by`` is set: the share of the listed devices that a masked sum must bear together with the
    server, at least; in [0, 1). What a server states there decides how many confirmations open a sum, so it is not
    its word alone."""
    catalogues: tuple[str, ...] | None = None
    """Digests of the catalogues that may be asked about, as ``fedboard status`` prints them."""
    smallest_catalogue: int = 50
    """Fewer items than this make the question too pointed; >= 1."""
    seeded_noise: bool = False
    """Whether to answer a run, and take a board, whose noise can be reproduced: a simulation, not private."""
    published_only: bool = False
    """Whether a board must be in the board cache, where only signed ones are, before it is answered."""
    answers_kept_hours: float = 24.0
    """How long an answer may be sent again to a server that lost it; the answer to the next round ends it before.
    In (0, 720]."""

    def __post_init__(self) -> None:
        """Check every range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        self.limit()
        _require(self.epsilon_per_run is None or self.epsilon_per_run > 0, "epsilon_per_run", "> 0")
        _require(
            self.epsilon_of_questions is None or self.epsilon_of_questions > 0, "epsilon_of_questions", "> 0"
        )
        _require(0 < self.smallest_scale <= 1, "smallest_scale", "in (0, 1]")
        _require(0 <= self.least_noise < float("inf"), "least_noise", "a finite number >= 0")
        helper = self.helper is None or _IDENTITY.fullmatch(self.helper) is not None
        _require(helper, "helper", "64 hexadecimal digits, as `fedboard helper` prints them")
        authority = self.vouched_by is None or _AUTHORITY.fullmatch(self.vouched_by) is not None
        _require(authority, "vouched_by", "64 hexadecimal digits, as `fedboard keys sign` prints them")
        _require(self.least_survivors >= 2, "least_survivors", "a whole number >= 2")
        _require(self.most_honest is None or self.most_honest >= 1, "most_honest", "a whole number >= 1")
        _require(0 <= self.least_colluding < 1, "least_colluding", "in [0, 1)")
        _require(0 < self.answers_kept_hours <= 720, "answers_kept_hours", "in (0, 720]")
        _require(self.smallest_catalogue >= 1, "smallest_catalogue", "a whole number >= 1")

    def limit(self) -> Budget:
        """Her limit over all runs.

        Raises:
            PrivacyError: epsilon or delta is out of range.
        """
        return Budget(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency)


def _require(holds: bool, name: str, rule: str) -> None:
    if not holds:
        raise InputError(f"{name} must be {rule}")


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A section that refuses keys it does not know."""


class Ratings(Section, frozen=True, kw_only=True):
    """``[ratings]``: where they are."""

    store: Path | None = None
    """The store of one person, as ``fedboard ratings init`` makes it."""
    cohort: Path | None = None
    """Instead of it: a folder with the ratings of many users, for a gateway."""
    examples: Path | None = None
    """Instead of them: a CSV file of examples, features with a label, for tasks that learn from those; of one
    person, or of many with a column ``user``."""
    first_row: int | None = None
    """Number of the first user in the population, where a run numbers its users; default 0, or the folder's."""

    def __post_init__(self) -> None:
        """Check that there is one place.

        Raises:
            InputError: none or two.
        """
        if sum(place is not None for place in (self.store, self.cohort, self.examples)) != 1:
            raise InputError("[ratings] needs either store or cohort, or examples")
        if self.first_row is not None and self.first_row < 0:
            raise InputError("first_row must be >= 0")


class Server(Section, frozen=True, kw_only=True):
    """``[server]``: whom a device that trains asks for work."""

    address: str
    """``host:port``."""
    authority: Path
    """PEM file with the certificate of whoever vouches for the server."""
    key: Path
    """PEM file of this device's private key, by which the server knows it."""
    question_key: Path | None = None
    """PEM file of the public key that this server signs its questions with, or a root document that names it;
    nobody else's are answered. Without it none are."""
    identity_key: Path | None = None
    """PEM file of this device's identity (``fedboard keys new identity``), by which other devices know it; needed
    where the policy names ``vouched_by``."""
    max_question_megabytes: int = 64
    """A question with its board of more than so many MiB is refused before it is read; in [1, 2047]."""

    max_answer_megabytes: int = 256
    """An answer that holds sums (form ``dense``, protocols of several steps) of more than so many MiB is refused;
    in [1, 65536]."""

    def __post_init__(self) -> None:
        """Check the form of the address, and the ranges of the sizes.

        Raises:
            InputError: it is no address, or out of range.
        """
        for name, most in (("max_question_megabytes", 2047), ("max_answer_megabytes", 65536)):
            given = getattr(self, name)
            _require(1 <= given <= most, f"{name} of [server]", f"in [1, {most}], got {given}")
        parse_address(self.address, name="address of [server]")


class Boards(Section, frozen=True, kw_only=True):
    """``[boards]``: where boards come from, whom one believes about them, and where they are kept."""

    cache: Path = Path("boards")
    """A folder."""
    source: str | None = None
    """Address of a board service, or of a mirror."""
    public_key: Path | None = None
    """The key that signs the boards' manifests, or a root document that names it."""
    ca_certificate: Path | None = None
    """PEM file of the authority that vouches for the source; default: that of ``[server]`` for a board service,
    the system's for a web server."""
    max_bytes: int = 1 << 30
    """Room for cached boards."""
    witnesses: tuple[str, ...] = ()
    """Public keys of witnesses, 64 hexadecimal digits each: nothing is answered about a board that too few of them
    have cosigned, whatever a root says. It implies ``published_only``."""
    cosignatures: int | None = None
    """How many of them must have; more than half. None: as few as that."""

    def __post_init__(self) -> None:
        """Check that so many witnesses say anything.

        Raises:
            InputError: one of them is no key, or too few of them would do.
        """
        if not self.witnesses and self.cosignatures is None:
            return
        from fedboard.common.boards.witnesses import Witnesses  # cryptography, which others can do without

        Witnesses.of(self.witnesses, self.cosignatures)
