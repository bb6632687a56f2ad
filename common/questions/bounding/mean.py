"""The mean of values of which users have many each, weighted smoothly, with Laplace noise (Algorithm 1)."""

import math
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.exact import require_epsilon
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.pure import LaplaceRelease
from fedboard.common.questions.bounding.grid import GRID_BOUND, on_grid
from fedboard.common.questions.bounding.sizes import PublicSizes


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedMean:
    """The question: sizes, bound and range decide weights and noise. Every field is public."""

    sizes: PublicSizes
    bound: float
    """h > 0, for example ``Tradeoff.optimum().bound``."""
    low: float
    """Values below are raised to it."""
    high: float
    """Values above are lowered to it; > low."""

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: not low < high, both finite.
        """
        if not -math.inf < self.low < self.high < math.inf:
            raise InputError(f"a range of values needs low < high, got {self.low} and {self.high}")

    @property
    def largest_contribution(self) -> float:
        """Of one user to the centred mean: half the range times the largest total weight."""
        return 0.5 * (self.high - self.low) * float(self.sizes.user_weights(self.bound).max())

    def release(self, name: str, *, epsilon: float) -> LaplaceRelease:
        """The release that publishes it.

        Args:
            name: unique in the ledger.
            epsilon: > 0, for the exchange of one user's values.

        Raises:
            PrivacyError: no finite epsilon > 0.
        """
        require_epsilon(epsilon)
        return LaplaceRelease(
            name=name,
            width=1,
            grid_step=self.largest_contribution / GRID_BOUND,
            l1_bound=GRID_BOUND,
            adjacency=Adjacency.REPLACE_VALUES,
            noise_multiplier=1.0 / epsilon,
            covers="weighted mean of values; how many each user has is public because "
            f"{self.sizes.public_because}",
        )

    def contributions(self, values: FloatArray, users: IntArray) -> IntArray:
        """Each user's part in the centred mean, on the grid, int64, shape (n_users, 1). Private.

        Args:
            values: shape (n_values,). Private.
            users: int, shape (n_values,), whose value it is. Public.

        Raises:
            InputError: the users have other numbers of values than declared.
            PrivacyError: a value is NaN.
        """
        self.sizes.require_values(values, users)
        centred = np.clip(values, self.low, self.high) - 0.5 * (self.low + self.high)
        sums = np.bincount(users, weights=centred, minlength=self.sizes.sizes.size)
        fractions = sums * self.sizes.value_weights(self.bound) / self.largest_contribution
        return on_grid(fractions[:, None])

    def answer(
        self,
        values: FloatArray,
        users: IntArray,
        *,
        name: str,
        epsilon: float,
        ledger: Ledger,
        noise: NoiseSource,
    ) -> float:
        """Book, draw, and return the private mean, clamped to the range.

        Args:
            values: as for ``contributions``. Private.
            users: as for ``contributions``. Public.
            name: of the release.
            epsilon: its cost.
            ledger: pays; its adjacency must be ``replace-values``.
            noise: where the draws come from.

        Raises:
            BudgetExceededError: the budget does not cover it.
        """
        total = self.contributions(values, users).sum(axis=0)
        booked = self.release(name, epsilon=epsilon).book(ledger, noise)
        mean = 0.5 * (self.low + self.high) + float(booked.publish(total)[0])
        return min(max(mean, self.low), self.high)
