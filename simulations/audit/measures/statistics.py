"""Tests whose null distribution is known: every one returns a p-value, so that errors can be shared out."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import erf, gammainc, gammaincc, kolmogorov, ndtr

from fedboard.common.arrays import FloatArray, ResidueArray

_ENOUGH = 1 << 20
"""Sorting more numbers than this would only cost time."""
_LEAST_OVERLAP = 1 << 12
_BARE = 2.0**-20


def shape_p(draws: FloatArray) -> float:
    """Kolmogorov-Smirnov test that numbers are standard normal; asymptotic, for at least some hundred of them.

    Reference: Stephens (1970), doi:10.1111/j.2517-6161.1970.tb00821.x, for the finite-sample factor.
    """
    ordered = np.sort(draws.ravel()[:_ENOUGH])
    n = ordered.size
    below = ndtr(ordered)
    ranks = np.arange(n + 1) / n
    distance = float(max(np.max(ranks[1:] - below), np.max(below - ranks[:-1])))
    root = math.sqrt(n)
    return float(kolmogorov((root + 0.12 + 0.11 / root) * distance))


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
    ordered = np.sort(numbers.ravel()[:_ENOUGH]).astype(np.float64) / 2.0**32
    n = ordered.size
    if n == 0:
        return 1.0
    ranks = np.arange(n + 1) / n
    distance = float(max(np.max(ranks[1:] - ordered), np.max(ordered - ranks[:-1])))
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
