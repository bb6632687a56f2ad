"""The trade-off of bounding contributions, variance of data against variance of noise, and its exact optimum.

Reference: Epasto et al. (2020), Smoothly bounding user contributions in differential privacy, sec. 3.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.checks import require_whole
from fedboard.common.errors import InputError
from research.epasto.bounding import PublicSizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A bound on contributions and what it costs. Public."""

    bound: float
    """h: values beyond which a user weighs no more."""
    variance: float
    """Of the released mean, in squared units of the values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tradeoff:
    """``v = value_variance sum c_i^2 + noise_variance (largest total weight of a user)^2`` for weights c. Public.

    The same form decides over means, quantiles and empirical risk (paper, sec. 4, "tradeoff weights").
    """

    sizes: PublicSizes
    value_variance: float
    """Variance of one value around the mean; > 0. A public guess: it decides accuracy, not privacy."""
    noise_variance: float
    """Variance of the noise if one user had all the weight; >= 0. See ``laplace_noise_variance``."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: a variance is negative or not finite, or both are 0.
        """
        for name in ("value_variance", "noise_variance"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} must be a finite number >= 0, got {getattr(self, name)}")
        if self.value_variance + self.noise_variance == 0:
            raise InputError("one of value_variance and noise_variance must be > 0")

    def variance(self, bound: float) -> float:
        """Variance of the mean with smoothly bounded weights, v(h) of Claim 1."""
        users = self.sizes.user_weights(bound)
        spread = float(np.sum(users * users / self.sizes.sizes))
        return self.value_variance * spread + self.noise_variance * float(users.max()) ** 2

    def optimum(self) -> Bound:
        """The best h, exactly.

        Between neighbouring sizes, with A the sum of the sizes below, q the number and R the sum of 1 / s of those
        above,

            v(h) = (value_variance A + (value_variance R + noise_variance) h^2) / (A + q h)^2,

        whose derivative has the sign of ``(value_variance R + noise_variance) h - q value_variance``. So each piece
        has its minimum at ``q value_variance / (value_variance R + noise_variance)``, or at the nearer end.
        """
        sizes = np.sort(self.sizes.sizes).astype(np.float64)
        starts, counts = np.unique(sizes, return_counts=True)
        below = np.cumsum(counts)
        total = np.cumsum(sizes)[below - 1]
        above = sizes.size - below
        inverse = np.concatenate([np.cumsum((1.0 / sizes)[::-1])[::-1], [0.0]])[below]
        with np.errstate(divide="ignore", invalid="ignore"):
            turning = above * self.value_variance / (self.value_variance * inverse + self.noise_variance)
        ends = np.append(starts[1:], starts[-1])
        bounds = np.clip(np.where(above > 0, turning, starts), starts, ends)
        squares = self.value_variance * inverse + self.noise_variance
        variances = (self.value_variance * total + squares * bounds**2) / (total + above * bounds) ** 2
        best = float(bounds[int(np.argmin(variances))])
        return Bound(bound=best, variance=self.variance(best))

    def sample_limit_variance(self, limit: int) -> float:
        """Variance of the mean of at most ``limit`` values of each user, v'(h) of Claim 2.

        Raises:
            InputError: the limit is not a whole number >= 1.
        """
        require_whole("a limit on samples", limit)
        return float(self._sample_limit_variances(np.array([limit]))[0])

    def best_sample_limit(self) -> Bound:
        """The best whole limit from the smallest to the largest size; the baseline of the paper."""
        limits = np.arange(self.sizes.sizes.min(), self.sizes.sizes.max() + 1)
        variances = self._sample_limit_variances(limits)
        best = int(np.argmin(variances))
        return Bound(bound=float(limits[best]), variance=float(variances[best]))

    def _sample_limit_variances(self, limits: FloatArray) -> FloatArray:
        sizes = np.sort(self.sizes.sizes).astype(np.float64)
        running = np.concatenate([[0.0], np.cumsum(sizes)])
        below = np.searchsorted(sizes, limits, side="right")
        kept = running[below] + (sizes.size - below) * limits
        largest = np.minimum(limits, sizes[-1])
        variances: FloatArray = self.value_variance / kept + self.noise_variance * (largest / kept) ** 2
        return variances


def laplace_noise_variance(value_range: float, epsilon: float) -> float:
    """``2 (B / epsilon)^2``: the noise of a mean of values in a range of width B, if one user had all the weight.

    Args:
        value_range: B > 0. Public.
        epsilon: > 0, for the exchange of one user's values. Public.

    Raises:
        InputError: an argument is not a finite number > 0.
    """
    if not (0 < value_range < math.inf and 0 < epsilon < math.inf):
        raise InputError(f"range and epsilon must be finite numbers > 0, got {value_range} and {epsilon}")
    return 2.0 * (value_range / epsilon) ** 2
