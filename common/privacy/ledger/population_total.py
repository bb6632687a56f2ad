"""What all runs on the same users cost together, as a board's certificate states it."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from fedboard.common.privacy.accounting.exact import epsilon_when_adaptive
from fedboard.common.privacy.accounting.guarantee import Finding
from fedboard.common.privacy.events import RELATIVE_TOLERANCE, Event

_SHOWN = 8  # characters of an id, for people


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationTotal:
    """State of a population's account when a board was published. Every field is public.

    Epsilons are natural-log units at ``delta``, and include this run's. What is promised is ``budget``, and
    ``lineage_budget`` to each lineage: the account checks them before every release and every plan, so that they
    hold whatever a run was started or stopped by. What is spent and reserved says how much of that is used up, as
    the account counts it (``epsilon_when_adaptive``).
    """

    population: str
    """Id of the account."""
    head: str
    """Hash of the account's last row then; with it the account's owner is bound to these numbers."""
    delta: float
    adjacency: str
    budget: float
    """Epsilon that all runs together may cost: what is promised."""
    spent: float
    """Epsilon of everything booked."""
    committed: float
    """Epsilon with what is reserved for runs under way."""
    runs: int
    """Number of runs that ever joined."""
    releases: int
    """Number of releases booked."""
    private: bool
    """False where some noise can be reproduced from a seed: then the total is a simulation's."""
    lineage: str
    """Id of the run that founded the chain of boards that this board belongs to."""
    lineage_spent: float
    """Epsilon of everything booked in the lineage."""
    lineage_budget: float | None
    """Epsilon that a lineage may cost; None: no limit of its own."""

    def agrees_with(self, other: "PopulationTotal") -> bool:
        """Whether these are the same totals, but for how another machine rounds."""
        ours, theirs = asdict(self), asdict(other)
        return all(_same(value, theirs[name]) for name, value in ours.items())

    def sentence(self) -> str:
        """What is promised about everything together, and how much of it is used up, in words."""
        reserved = "" if self.committed <= self.spent else f" ({self.committed:.6g} with what is reserved)"
        within = (
            "The lineage of this board has no limit of its own"
            if self.lineage_budget is None
            else f"The lineage of this board is promised epsilon {self.lineage_budget:.6g} in the same way"
        )
        simulated = "" if self.private or not self.releases else " Some of its noise is a simulation's."
        return (
            f"All runs on this population together (account {self.population[:_SHOWN]}) are promised epsilon "
            f"{self.budget:.6g} at delta {self.delta:g}: the account refuses more, whatever a run was started or "
            f"stopped by. The {self.runs} runs so far count {self.spent:.6g} of it{reserved}. {within} and counts "
            f"{self.lineage_spent:.6g}.{simulated}"
        )

    def findings(self, releases: Sequence[Event], *, adjacency: str) -> list[Finding]:
        """Check what can be checked without the account: that the numbers are possible.

        Args:
            releases: sound events of the board. Public.
            adjacency: the one of the board's claim.
        """
        same = self.adjacency == adjacency
        detail = f"the account is for adjacency {self.adjacency}, the claim for {adjacency}"
        if not same or not 0 < self.delta < 1:
            return [Finding(check="population", passed=False, detail=detail)]
        own = epsilon_when_adaptive(releases, self.delta)
        limits = [own, self.lineage_spent, self.spent, self.committed, self.budget]
        limit = self.budget if self.lineage_budget is None else self.lineage_budget
        ordered = all(low <= high * (1 + RELATIVE_TOLERANCE) for low, high in pairwise(limits))
        detail = (
            f"this board's releases cost epsilon {own:.6g}, its lineage {self.lineage_spent:.6g}, all runs "
            f"{self.spent:.6g}, with reserved ones {self.committed:.6g}, the budget is {self.budget:.6g}"
        )
        within = self.lineage_spent <= limit * (1 + RELATIVE_TOLERANCE)
        return [Finding(check="population", passed=ordered and within, detail=detail)]


def _same(value: object, other: object) -> bool:
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=RELATIVE_TOLERANCE)
    return value == other
