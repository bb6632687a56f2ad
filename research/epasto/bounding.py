"""Smoothly bounded contributions of users who have many values each, where how many they have is public.

The mean of such values with Laplace noise (Algorithm 1); quantiles by weighted rank and the exponential mechanism
(Algorithm 4). Questions to fleets (``fedboard.common.queries``) keep the sizes private, too.

Reference: Epasto et al. (2020), Smoothly bounding user contributions in differential privacy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedboard import Ledger
from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import require_epsilon
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.pure import ExponentialRelease, LaplaceRelease
from fedboard.common.queries.quantile import Target

GRID_BOUND = 1 << 40
"""Largest contribution of one user, grid units: the grid shows in no digit, and 2^22 users fit."""


def on_grid(fractions: FloatArray) -> IntArray:
    """Put parts of a bound on the grid, toward zero.

    Args:
        fractions: float64, shape (n_users, width): contributions as fractions of the bound. Private.

    Returns:
        int64, same shape; absolute values of a row add to at most ``GRID_BOUND`` if those of its fractions add to
        at most 1 up to rounding. Private.

    Raises:
        PrivacyError: a row exceeds the bound by more than rounding, or is not finite; which one is not said.
    """
    sums = np.abs(fractions).sum(axis=1)
    if not np.all(sums <= 1.0 + 1e-9):
        raise PrivacyError("a contribution exceeds its bound or is not finite")
    units: IntArray = np.trunc(fractions * (GRID_BOUND / np.maximum(sums, 1.0))[:, None]).astype(np.int64)
    excess = np.abs(units).sum(axis=1) - GRID_BOUND
    for row in np.flatnonzero(excess > 0):  # rounding of a product: a unit or two
        largest = int(np.argmax(np.abs(units[row])))
        units[row, largest] -= int(math.copysign(excess[row], units[row, largest]))
    return units


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PublicSizes:
    """How many values each user has. Public, because the caller says why.

    Everything computed from it (weights, bounds, noise) shows these numbers and protects values only: adjacency
    ``replace-values``, or ``replace-labels``. In a fleet a user's number of ratings is private; there the bound
    is a public constant or comes from a private quantile (``fedboard.common.queries``).
    """

    sizes: IntArray
    """int64, shape (n_users,), each >= 1."""
    public_because: str
    """Why everybody may know them; part of what a release says that it covers."""

    def __post_init__(self) -> None:
        """Check the numbers and that the statement is there.

        Raises:
            InputError: no users, or a size below 1.
            PrivacyError: nothing is stated.
        """
        sizes = np.asarray(self.sizes)
        if (
            sizes.ndim != 1
            or sizes.size == 0
            or not np.issubdtype(sizes.dtype, np.integer)
            or sizes.min() < 1
        ):
            raise InputError("contribution sizes must be whole numbers >= 1, one a user")
        if not self.public_because.strip():
            raise PrivacyError(
                "contribution sizes are used as they are, so they must be public: say why in public_because, or "
                "use a bound that does not depend on them"
            )
        object.__setattr__(self, "sizes", sizes.astype(np.int64))

    @classmethod
    def of(cls, users: IntArray, *, n_users: int, public_because: str) -> "PublicSizes":
        """Count the values of users ``0..n_users - 1``.

        Args:
            users: int, shape (n_values,): whose value it is. Public.
            n_users: each must have a value.
            public_because: as the field.
        """
        counts = np.bincount(users, minlength=n_users).astype(np.int64)
        return cls(sizes=counts, public_because=public_because)

    def require_counts_of(self, users: IntArray) -> None:
        """Refuse values of other users, or other numbers of them, than were declared public.

        Raises:
            InputError: they differ; how is not said.
        """
        users = np.asarray(users)
        outside = users.size and (users.min() < 0 or users.max() >= self.sizes.size)
        if outside or not np.array_equal(np.bincount(users, minlength=self.sizes.size), self.sizes):
            raise InputError("the values are not those of the declared contribution sizes")

    def require_values(self, values: FloatArray, users: IntArray) -> None:
        """Refuse values that are none, or of others than were declared.

        Args:
            values: shape (n_values,). Private.
            users: int, shape (n_values,): whose value it is. Public.

        Raises:
            InputError: as for ``require_counts_of``.
            PrivacyError: a value is NaN.
        """
        self.require_counts_of(users)
        if np.isnan(values).any():
            raise PrivacyError("values must be numbers; NaN was refused")

    def user_weights(self, bound: float) -> FloatArray:
        """Each user's total weight ``min(h, s) / sum min(h, s)``, float64, shape (n_users,); sums to 1. Public.

        Args:
            bound: h > 0.

        Raises:
            InputError: the bound is not a finite number > 0.

        Reference: Epasto et al. (2020), lemma 3.
        """
        if not 0 < bound < np.inf:
            raise InputError(f"a bound on contributions must be a finite number > 0, got {bound}")
        capped = np.minimum(float(bound), self.sizes)
        weights: FloatArray = capped / capped.sum()
        return weights

    def value_weights(self, bound: float) -> FloatArray:
        """The weight of each value of a user, ``min(h, s) / (s sum min(h, s))``, shape (n_users,). Public."""
        return self.user_weights(bound) / self.sizes


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightedQuantile:
    """The question. Every field is public."""

    sizes: PublicSizes
    bound: float
    """h > 0: values beyond which a user weighs no more."""
    target: Target
    candidates: FloatArray
    """float64, shape (n_candidates,), ascending: the possible answers. A value belongs to the first that is not
    below it, and beyond the last to the last.
    """
    base: Sequence[int] | None = None
    """Weights of the candidates before the data are seen, whole numbers > 0; None: all equal."""

    def __post_init__(self) -> None:
        """Check the candidates.

        Raises:
            InputError: fewer than 2, not ascending or not finite.
        """
        candidates = np.asarray(self.candidates, dtype=np.float64)
        if candidates.ndim != 1 or candidates.size < 2 or not np.all(np.diff(candidates) > 0):
            raise InputError("a quantile needs at least 2 candidates, ascending")
        if not np.isfinite(candidates).all():
            raise InputError("the candidates of a quantile must be finite")
        object.__setattr__(self, "candidates", candidates)

    def release(self, name: str, *, epsilon: float) -> ExponentialRelease:
        """The release that publishes it.

        Raises:
            PrivacyError: no finite epsilon > 0.
        """
        require_epsilon(epsilon)
        return ExponentialRelease(
            name=name,
            candidates=self.candidates.size,
            score_sensitivity=self.target.sensitivity(GRID_BOUND, Adjacency.REPLACE_VALUES),
            adjacency=Adjacency.REPLACE_VALUES,
            noise_multiplier=1.0 / epsilon,
            covers=f"{self.target.share:g} quantile of values, weighted; how many each user has is public because "
            f"{self.sizes.public_because}",
        )

    def histogram(self, values: FloatArray, users: IntArray) -> list[int]:
        """Whole weight by candidate, each user at most ``GRID_BOUND``; shape (n_candidates,). Private.

        Args:
            values: shape (n_values,). Private.
            users: int, shape (n_values,), whose value it is. Public.

        Raises:
            InputError: the users have other numbers of values than declared.
            PrivacyError: a value is NaN.
        """
        self.sizes.require_values(values, users)
        weights = self.sizes.value_weights(self.bound)
        largest = float(self.sizes.user_weights(self.bound).max())
        units = np.trunc(weights / largest * (1.0 - 2.0**-50) * GRID_BOUND).astype(np.int64)
        cells = np.minimum(np.searchsorted(self.candidates, values, side="left"), self.candidates.size - 1)
        found = np.zeros(self.candidates.size, dtype=np.int64)
        np.add.at(found, cells, units[users])
        return [int(weight) for weight in found]

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
        """Book, draw, and return one of the candidates; arguments and failures as ``WeightedMean.answer``."""
        penalties = self.target.penalties(self.histogram(values, users))
        booked = self.release(name, epsilon=epsilon).book(ledger, noise)
        return float(self.candidates[booked.choose(penalties, self.base)])
