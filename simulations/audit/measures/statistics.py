"""Tests whose null distribution is known: every one returns a p-value, so that errors can be shared out."""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

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


class NoiseOfRun(Protocol):
    """The noise of one run."""

    @property
    def noise(self) -> Mapping[str, FloatArray]:
        """By release name, shape (rows, width)."""
        ...

    @property
    def starts(self) -> Mapping[str, tuple[int, ...]]:
        """By release name, first rows of the blocks in which it left."""
        ...


def relations_between(
    runs: Sequence[NoiseOfRun], drawn: Mapping[str, FloatArray], small: Collection[str]
) -> Iterator[tuple[str, float]]:
    """p-values of everything that must not be related, by what it is.

    Args:
        runs: whole runs, each with its own noise.
        drawn: by release name, the numbers that are judged: of all these runs, or of many runs of their own.
        small: names of the latter, which have one row for each of these runs.
    """
    first = runs[0]
    for name, numbers in drawn.items():
        flat = numbers.ravel()
        yield f"neighbouring numbers of {name}", relation_p(flat[:-1], flat[1:])
        yield f"neighbouring rows of {name}", relation_p(numbers[:-1], numbers[1:])
        yield f"distant numbers of {name}", distant_p(flat)
        for (k, one), (number, other) in itertools.combinations(enumerate(runs), 2):
            if name in one.noise and name in other.noise:
                yield f"{name} in runs {k} and {number}", relation_p(one.noise[name], other.noise[name])
        for row, next_row in itertools.pairwise(first.starts[name]):
            unit = first.noise[name]
            check = f"blocks of {name} from rows {row} and {next_row}"
            yield check, relation_p(unit[row:next_row], unit[next_row:])
    for name, other_name in itertools.combinations(drawn, 2):
        check = f"{name} and {other_name}"
        if name in small and other_name in small:
            yield check, _side_by_side(drawn[name], drawn[other_name])
        else:
            yield check, relation_p(first.noise[name], first.noise[other_name])


def _side_by_side(one: FloatArray, other: FloatArray) -> float:
    """The same runs and columns of two small releases, as far as both have them."""
    rows, width = min(len(one), len(other)), min(one.shape[1], other.shape[1])
    return relation_p(one[:rows, :width], other[:rows, :width])
