"""Lower bounds on mu from the scores of planted users who were in or out by a coin."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, nctdtr, ndtri

from fedboard.common.arrays import BoolArray, FloatArray, IntArray
from fedboard.common.privacy.accounting.exact import epsilon_of

LARGEST_MU = 1e3
"""Where nothing protects a user there is no noise to measure; bounds end here."""
_THRESHOLDS = 400
_PRECISION = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What scores say about mu. Every number holds with the confidence that was asked for, each on its own."""

    estimate: float
    """Difference of the mean scores in units of their deviation; unbiased, no bound."""
    sharp: float
    """Lower bound on mu by a normal test: exact for a sum with Gaussian noise, see ``sharp_bound``."""
    split: float
    """Lower bound on mu by counting errors, whatever the shape of the scores, see ``split_bound``."""

    def epsilon(self, delta: float) -> float:
        """The sharp bound as epsilon at ``delta``."""
        return epsilon_of(delta, mu=self.sharp)

    def split_epsilon(self, delta: float) -> float:
        """The bound by counting as epsilon at ``delta``."""
        return epsilon_of(delta, mu=self.split)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One release, or all together: what is claimed, what was shown."""

    name: str
    mu: float
    """Claimed: from the ledger's events."""
    reach: float
    """Mean over the canaries of the mu that they can show at most, as a share of ``mu``."""
    bound: Bound
    strict: float
    """Sharp lower bound on mu at the family-wise confidence: above ``mu`` it counts as a violation."""


def bound_of(scores: FloatArray, present: BoolArray, *, confidence: float, rng: np.random.Generator) -> Bound:
    """Both bounds from one set of scores.

    Args:
        scores: float64, shape (n_canaries,), larger for those who seem to be in.
        present: bool, shape (n_canaries,), the coins.
        confidence: for example 0.95.
        rng: splits the canaries in halves.
    """
    return Bound(
        estimate=estimate(scores, present),
        sharp=sharp_bound(scores, present, confidence=confidence),
        split=split_bound(scores, present, confidence=confidence, rng=rng),
    )


def estimate(scores: FloatArray, present: BoolArray) -> float:
    """Difference of the means over the pooled deviation, within +-``LARGEST_MU``; 0 where it is undefined."""
    inside, outside = scores[present], scores[~present]
    if min(inside.size, outside.size) < 2:
        return 0.0
    squares = float(np.sum((inside - inside.mean()) ** 2) + np.sum((outside - outside.mean()) ** 2))
    deviation = math.sqrt(squares / (scores.size - 2))
    difference = float(inside.mean() - outside.mean())
    if deviation * LARGEST_MU <= abs(difference):
        return math.copysign(LARGEST_MU, difference) if difference else 0.0
    return difference / deviation


def sharp_bound(scores: FloatArray, present: BoolArray, *, confidence: float) -> float:
    """Lower confidence bound on mu when scores are N(mu in, s^2) with unknown s.

    ``t = (mean_in - mean_out) / (s_pooled sqrt(1/n_in + 1/n_out))`` has the noncentral t distribution with n - 2
    degrees of freedom and noncentrality ``mu / sqrt(1/n_in + 1/n_out)``; the bound is the smallest mu that does
    not make t improbably large. Exact for such scores, given the coins. Not guaranteed: anything about mechanisms
    whose scores have another shape.

    Returns:
        In ``0..LARGEST_MU``.

    Reference: Andrew et al. (2023), arXiv:2302.03098 (canary clients, normal scores); here with the distribution
    of the pooled deviation instead of plugging it in.
    """
    n_inside = int(np.count_nonzero(present))
    n_outside = present.size - n_inside
    if min(n_inside, n_outside) < 2:
        return 0.0
    spread = math.sqrt(1.0 / n_inside + 1.0 / n_outside)
    statistic, freedom = estimate(scores, present) / spread, present.size - 2

    def improbable(mu: float) -> bool:
        return float(nctdtr(freedom, mu / spread, statistic)) >= confidence

    if not improbable(0.0):
        return 0.0
    low, high = 0.0, max(statistic * spread, 0.0)
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        low, high = (middle, high) if improbable(middle) else (low, middle)
    return min(low, LARGEST_MU)


def split_bound(
    scores: FloatArray, present: BoolArray, *, confidence: float, rng: np.random.Generator
) -> float:
    """Lower confidence bound on mu from counted errors: for every test ``mu >= PhiInv(TPR) - PhiInv(FPR)``.

    The threshold is chosen on one half of the canaries; on the other, TPR is bounded from below and FPR from
    above by Clopper-Pearson, each with half of the error. A negative difference means that nothing is known: the
    bound is then 0. (Taking its absolute value, as jax-privacy 2.0.0 does, certifies leaks where there are none.)
    No assumption about the distribution of the scores; the canaries' scores count as independent.

    Returns:
        In ``0..LARGEST_MU``.

    Reference: Nasr et al. (2023), arXiv:2302.07956, sec. 4 (GDP auditing by thresholds).
    """
    order = rng.permutation(scores.size)
    choose, count = order[: scores.size // 2], order[scores.size // 2 :]
    if not choose.size:
        return 0.0
    level = 1.0 - (1.0 - confidence) / 2.0
    thresholds = np.quantile(scores[choose], np.linspace(0.0, 1.0, _THRESHOLDS))
    best = np.argmax(_counted(scores[choose], present[choose], thresholds, level))
    found = _counted(scores[count], present[count], thresholds[[best]], level)
    return min(max(0.0, float(found[0])), LARGEST_MU)


def _counted(scores: FloatArray, present: BoolArray, thresholds: FloatArray, level: float) -> FloatArray:
    """Counted bound at each threshold, possibly negative or -inf."""
    inside, outside = np.sort(scores[present]), np.sort(scores[~present])
    hits = inside.size - np.searchsorted(inside, thresholds)
    passes = np.searchsorted(outside, thresholds)
    lower = proportion_at_least(hits, inside.size, level)
    upper = 1.0 - proportion_at_least(passes, outside.size, level)
    with np.errstate(invalid="ignore"):  # nothing is known: inf - inf
        found = ndtri(lower) - ndtri(upper)
    return np.where(np.isnan(found), -np.inf, found)


def proportion_at_least(hits: IntArray, trials: int, level: float) -> FloatArray:
    """Lower Clopper-Pearson bound of each proportion, at confidence ``level``; 0 without a hit."""
    found = betaincinv(np.maximum(hits, 1), trials - hits + 1, 1.0 - level)
    return np.where(hits > 0, found, 0.0)
