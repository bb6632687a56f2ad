"""From scores and draws to bounds and p-values: lower bounds on mu from the scores of planted users who were in or
out by a coin, and tests whose null distribution is known, so that errors can be shared out among them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import betaincinv, erf, gammainc, gammaincc, kolmogorov, nctdtr, ndtr, ndtri

from fedboard.common.arrays import BoolArray, FloatArray, IntArray, ResidueArray

CONFIDENCE = 0.95
"""Of each bound that is reported."""
FAMILY_ERROR = 1e-3
"""Probability that anything else of a correct run is flagged, shared out among all tests of a kind."""
LARGEST_MU = 1e3
"""Where nothing protects a user there is no noise to measure; bounds end here."""
_THRESHOLDS = 400
_PRECISION = 1e-9


Seen: TypeAlias = tuple[FloatArray, FloatArray]
"""For each canary: inner product of what was seen with their shift, and the squared norm of the shift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One release, or all together: what is claimed, what was shown.

    Every bound holds with its own confidence: ``sharp`` and ``split`` with ``CONFIDENCE``, each by itself.
    """

    name: str
    mu: float
    """Claimed: from the ledger's events."""
    reach: float
    """Mean over the canaries of the mu that they can show at most, as a share of ``mu``."""
    estimate: float
    """Difference of the mean scores in units of their deviation; unbiased, no bound."""
    sharp: float
    """Lower bound on mu by a normal test: exact for a sum with Gaussian noise, see ``sharp_bound``."""
    split: float
    """Lower bound on mu by counting errors, whatever the shape of the scores, see ``split_bound``."""
    strict: float
    """Sharp lower bound on mu at the family-wise confidence: above ``mu`` it counts as a violation."""


def line_of(
    name: str,
    mu: float,
    seen: Sequence[Seen],
    present: BoolArray,
    *,
    error: float,
    rng: np.random.Generator,
) -> Line:
    """What canaries showed, from their scores in all releases together.

    Args:
        name: of the line.
        mu: claimed.
        seen: of each release.
        present: bool, shape (n_canaries,), the coins.
        error: probability that the line of a correct run is flagged.
        rng: splits the canaries in halves.
    """
    along = np.sum([part[0] for part in seen], axis=0)
    reached = np.sqrt(np.sum([part[1] for part in seen], axis=0))
    scores = np.divide(along, reached, out=np.zeros_like(reached), where=reached > 0)
    return Line(
        name=name,
        mu=mu,
        reach=float(np.mean(reached)) / mu if mu else 0.0,
        estimate=estimate(scores, present),
        sharp=sharp_bound(scores, present, confidence=CONFIDENCE),
        split=split_bound(scores, present, confidence=CONFIDENCE, rng=rng),
        strict=sharp_bound(scores, present, confidence=1.0 - error),
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


_ENOUGH = 1 << 20
"""Sorting more numbers than this would only cost time."""
_LEAST_OVERLAP = 1 << 12
_BARE = 2.0**-20


def shape_p(draws: FloatArray) -> float:
    """Kolmogorov-Smirnov test that numbers are standard normal; asymptotic, for at least some hundred of them.

    Reference: Stephens (1970), doi:10.1111/j.2517-6161.1970.tb00821.x, for the finite-sample factor.
    """
    return _kolmogorov_smirnov(ndtr(np.sort(draws.ravel()[:_ENOUGH])))


def spread_p(draws: FloatArray) -> float:
    """Two-sided chi-squared test that the mean square of standard normal numbers is 1."""
    squares = float(np.sum(np.square(draws)))
    half = draws.size / 2.0
    return min(1.0, 2.0 * float(min(gammainc(half, squares / 2.0), gammaincc(half, squares / 2.0))))


def relation_p(first: FloatArray, second: FloatArray) -> float:
    """Two-sided test that two rows of standard normal numbers have nothing to do with each other.

    ``sum x_i y_i / |y|`` is standard normal given y, so the test is exact. 1 where there is nothing to compare.
    """
    size = min(first.size, second.size)
    x, y = first.ravel()[:size], second.ravel()[:size]
    length = float(np.linalg.norm(y))
    if length == 0.0:
        return 1.0
    return 2.0 * float(ndtr(-abs(float(x @ y)) / length))


def cells_p(runs: Sequence[FloatArray], step: float) -> float:
    """Test that no cell lacks noise: that none is improbably near zero in all runs, and not too many in one.

    A number's distance from zero has the probability ``erf((|x| + step / 2) / sqrt 2)`` to be no larger. A cell's
    product over the runs is held against a product of uniform numbers; the number of cells within 2^-20 of zero,
    which is what publishing without noise leaves, against its Poisson law.

    Args:
        runs: numbers of one shape, standard normal where all is well.
        step: distance of neighbouring numbers: nothing is nearer to zero than half of it.

    Returns:
        Bonferroni over cells and both ways.
    """
    near = [erf((np.abs(run) + step / 2) / math.sqrt(2.0)) for run in runs]
    least = float(np.min(np.prod(near, axis=0), initial=1.0))
    log = -math.log(max(least, 1e-300))
    product = least * sum(log**k / math.factorial(k) for k in range(len(runs)))
    within = float(erf((_BARE + step / 2) / math.sqrt(2.0)))
    bare = sum(int(np.count_nonzero(np.abs(run) <= _BARE)) for run in runs)
    expected = within * sum(run.size for run in runs)
    many = float(gammainc(bare, expected)) if bare else 1.0
    return min(1.0, 2.0 * min(product * runs[0].size, many))


def uniform_p(numbers: ResidueArray) -> float:
    """Kolmogorov-Smirnov test that 32-bit numbers are uniform."""
    return _kolmogorov_smirnov(np.sort(numbers.ravel()[:_ENOUGH]).astype(np.float64) / 2.0**32)


def _kolmogorov_smirnov(below: FloatArray) -> float:
    """The test that ascending numbers are uniform on 0..1; 1 where there are none."""
    n = below.size
    if n == 0:
        return 1.0
    ranks = np.arange(n + 1) / n
    distance = float(max(np.max(ranks[1:] - below), np.max(below - ranks[:-1])))
    root = math.sqrt(n)
    return float(kolmogorov((root + 0.12 + 0.11 / root) * distance))


def distant_p(draws: FloatArray) -> float:
    """Test that no part of a row of standard normal numbers comes again at any distance.

    The autocorrelation at every lag that leaves 4,096 numbers, by Fourier transform; the largest is tested as
    ``relation_p`` does, Bonferroni over the lags. 1 for fewer numbers.
    """
    x = draws.ravel()
    lags = x.size - _LEAST_OVERLAP
    if lags < 1:
        return 1.0
    spectrum = np.fft.rfft(x, 2 * x.size)
    products = np.fft.irfft(np.abs(spectrum) ** 2)[1 : lags + 1]
    lag = 1 + int(np.argmax(np.abs(products) / np.sqrt(x.size - np.arange(1, lags + 1))))
    return min(1.0, lags * relation_p(x[:-lag], x[lag:]))
