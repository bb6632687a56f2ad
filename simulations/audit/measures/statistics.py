"""Tests whose null distribution is known: every one returns a p-value, so that errors can be shared out."""

import math

import numpy as np
from scipy.special import gammainc, gammaincc, kolmogorov, ndtr

from fedboard.common.arrays import FloatArray

_ENOUGH = 1 << 20
"""Sorting more numbers than this would only cost time."""


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


__all__ = ["relation_p", "shape_p", "spread_p"]
