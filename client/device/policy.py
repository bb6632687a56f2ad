"""A person's participation policy: what she is willing to give, to whom, under which promise. Her own choice."""

import re

import msgspec

from fedboard.common.errors import InputError
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
        known = self.helper is None or _IDENTITY.fullmatch(self.helper) is not None
        _require(known, "helper", "64 hexadecimal digits, as `fedboard helper` prints them")
        known = self.vouched_by is None or _AUTHORITY.fullmatch(self.vouched_by) is not None
        _require(known, "vouched_by", "64 hexadecimal digits, as `fedboard keys sign` prints them")
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
