"""Quantiles of values of which users have many each: weighted rank and the exponential mechanism (Algorithm 4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.exact import require_epsilon
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.pure import ExponentialRelease
from fedboard.common.questions.bounding.grid import GRID_BOUND
from fedboard.common.questions.bounding.sizes import PublicSizes

_FINEST_TARGET = 10_000


@dataclass(frozen=True, slots=True)
class Target:
    """A share q in (0, 1) as a ratio of small whole numbers, so that ranks are compared exactly. Public."""

    share: float

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: not in (0, 1).
        """
        if not 0.0 < self.share < 1.0 or self.ratio in (0, 1):
            raise InputError(f"the share of a quantile must be in (0, 1), to 1/10000, got {self.share}")

    @property
    def ratio(self) -> Fraction:
        """The nearest ratio with a denominator of at most 10 000."""
        return Fraction(self.share).limit_denominator(_FINEST_TARGET)

    def penalties(self, histogram: Sequence[int]) -> list[int]:
        """How far each cell is from containing the quantile: ``max(B_before - q T, q T - B, 0)``, times a constant.

        B is the weight up to and with the cell, T all weight. A cell that the quantile lies in has 0, also where
        many values are equal; where all values differ this is the rank's distance from q, up to one weight.

        Args:
            histogram: whole weights by cell, ascending cells. Private.
        """
        numerator, denominator = self.ratio.as_integer_ratio()
        wanted, before, found = numerator * sum(histogram), 0, []
        for weight in histogram:
            after = before + denominator * weight
            found.append(max(before - wanted, wanted - after, 0))
            before = after
        return found

    def sensitivity(self, largest_weight: int, adjacency: Adjacency) -> int:
        """Largest change of a penalty when a user of at most this total weight comes, goes or is exchanged.

        A user of total weight t with b of it up to a cell moves ``B - q T`` by ``b - q t``, which lies in
        ``[-q t, (1 - q) t]``: coming or going by at most ``max(q, 1 - q) t``, exchanged by at most t.
        """
        numerator, denominator = self.ratio.as_integer_ratio()
        if adjacency is Adjacency.ADD_REMOVE:
            return max(numerator, denominator - numerator) * largest_weight
        return denominator * largest_weight


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
