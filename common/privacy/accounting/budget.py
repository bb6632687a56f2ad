"""The privacy budget that a ledger keeps to."""

import math
from dataclasses import dataclass

from fedboard.common.errors import BudgetExceededError, OutOfRangeError
from fedboard.common.privacy.accounting.exact import require_delta
from fedboard.common.privacy.adjacency import Adjacency, parse_adjacency
from fedboard.common.privacy.events import RELATIVE_TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What all releases of a ledger together may cost. Every field is public."""

    epsilon: float
    """Privacy loss bound, natural-log units; > 0."""
    delta: float
    """Probability that the bound fails; in (0, 1), well below 1 / n_users."""
    adjacency: Adjacency
    """What neighbouring means; every release must use the same."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            PrivacyError: a number is out of range or the adjacency is unknown.
        """
        if not 0 < self.epsilon < math.inf:
            raise OutOfRangeError(f"epsilon of a budget must be a finite number > 0, got {self.epsilon}")
        require_delta(self.delta)
        object.__setattr__(self, "epsilon", float(self.epsilon))  # as certificates write it
        object.__setattr__(self, "adjacency", parse_adjacency(self.adjacency))

    def require_affordable(self, what: str, *, spent: float, after: float) -> None:
        """Refuse what the budget does not cover.

        Args:
            what: who asks, for the message.
            spent: epsilon of what is booked, at the budget's delta. Public.
            after: epsilon of it together with what is asked. Public.

        Raises:
            BudgetExceededError: names what is spent, what it would be, and the budget.
        """
        if after <= self.epsilon * (1 + RELATIVE_TOLERANCE):
            return
        raise BudgetExceededError(
            f"{what} is refused: spent epsilon {spent:.6g}, with it {after:.6g} "
            f"at delta {self.delta:g}, but the budget is {self.epsilon:.6g}"
        )
