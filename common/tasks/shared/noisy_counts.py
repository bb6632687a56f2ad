"""Counts behind released counts: the posterior under a prior that is fitted to all of them. Post-processing.

Model: ``released_i = count_i + Normal(0, stddev^2)``, counts drawn from one unknown distribution on [0, inf). That
distribution is fitted on a grid by maximum likelihood, so it has no parameter to tune: where nobody rated, where all
items are alike and where a few are rated by everybody.

Reference: J. Kiefer and J. Wolfowitz (1956), doi:10.1214/aoms/1177728066; the fixed grid: R. Koenker and I. Mizera (2014),
doi:10.1080/01621459.2013.869224.
"""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray

_SUPPORT, _SWEEPS = 60, 60
_FITTED, _AT_ONCE = 20_000, 1 << 15
_FINEST = 1 / 20
"""Smallest count of the grid, in units of the noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyCounts:
    """What the released counts say of the true ones. Public."""

    mean: FloatArray
    """float64, shape (n_items,), >= 0."""
    variance: FloatArray
    """What is left to doubt: float64, shape (n_items,), >= 0."""


def likely_counts(released: FloatArray, *, stddev: float) -> LikelyCounts:
    """Posterior mean and variance of each count.

    Args:
        released: float64, shape (n_items,). Public.
        stddev: of the noise in each; > 0.
    """
    grid = _grid(released, stddev)
    ranked = np.sort(released)
    sample = ranked[:: max(1, -(-ranked.size // _FITTED))]
    likelihood, prior = _likelihood(sample, grid, stddev), np.full(grid.size, 1.0 / grid.size)
    for _ in range(_SWEEPS):
        joint = likelihood * prior
        prior = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
    mean, variance = np.empty(released.size), np.empty(released.size)
    for first in range(0, released.size, _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        joint = _likelihood(released[part], grid, stddev) * prior
        joint /= joint.sum(axis=1, keepdims=True)
        mean[part] = joint @ grid
        variance[part] = np.maximum(joint @ grid**2 - mean[part] ** 2, 0.0)
    return LikelyCounts(mean=mean, variance=variance)


def _grid(released: FloatArray, stddev: float) -> FloatArray:
    """Zero, then evenly on the log scale up to the largest that was released."""
    highest = max(float(released.max(initial=0.0)), stddev)
    return np.concatenate([[0.0], np.geomspace(_FINEST * stddev, highest, _SUPPORT - 1)])


def _likelihood(released: FloatArray, grid: FloatArray, stddev: float) -> FloatArray:
    """Up to a factor for each item, so that none underflows: float64, shape (n_items, n_grid)."""
    squares = ((released[:, None] - grid) / stddev) ** 2 / 2
    found: FloatArray = np.exp(squares.min(axis=1, keepdims=True) - squares)
    return found
