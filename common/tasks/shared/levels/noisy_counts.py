"""Counts behind released counts: the posterior under a prior that is fitted to all of them. Post-processing.

Model: ``released_i = count_i + Normal(0, stddev^2)``, counts drawn from one unknown distribution on [0, inf). It is
fitted on a grid by maximum likelihood, so that there is no parameter to tune: where nobody rated, where all items
are alike and where a few are rated by everybody.

Reference: J. Kiefer and J. Wolfowitz (1956), doi:10.1214/aoms/1177728066; on a fixed grid: R. Koenker and I. Mizera
(2014), doi:10.1080/01621459.2013.869224.
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
    centres, widths = _components(released, stddev)
    ranked = np.sort(released)
    sample = ranked[:: max(1, -(-ranked.size // _FITTED))]
    likelihood = _likelihood(sample, centres, widths, stddev)
    prior = np.full(centres.size, 1.0 / centres.size)
    for _ in range(_SWEEPS):
        joint = likelihood * prior
        prior = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
    mean, variance = np.empty(released.size), np.empty(released.size)
    trust = widths**2 / (widths**2 + stddev**2)
    for first in range(0, released.size, _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        joint = _likelihood(released[part], centres, widths, stddev) * prior
        joint /= joint.sum(axis=1, keepdims=True)
        within = np.maximum(centres + trust * (released[part, None] - centres), 0.0)
        mean[part] = np.sum(joint * within, axis=1)
        squares = np.sum(joint * (within**2 + trust * stddev**2), axis=1)
        variance[part] = np.maximum(squares - mean[part] ** 2, 0.0)
    return LikelyCounts(mean=mean, variance=variance)


def _components(released: FloatArray, stddev: float) -> tuple[FloatArray, FloatArray]:
    """Centres and deviations of the normal distributions that the prior is mixed of.

    Zero exactly, then evenly on the log scale up to the largest that was released, each half as wide as the step to
    the next: where the noise is smaller than a step, a count is still as sure as its release.
    """
    highest = max(float(released.max(initial=0.0)), stddev)
    centres = np.geomspace(_FINEST * stddev, highest, _SUPPORT - 1)
    step = centres[1] / centres[0] - 1.0
    return np.append(0.0, centres), np.append(0.0, 0.5 * step * centres)


def _likelihood(released: FloatArray, centres: FloatArray, widths: FloatArray, stddev: float) -> FloatArray:
    """Up to a factor for each item, so that none underflows: float64, shape (n_items, n_components)."""
    variances = stddev**2 + widths**2
    logs = -0.5 * ((released[:, None] - centres) ** 2 / variances + np.log(variances))
    found: FloatArray = np.exp(logs - logs.max(axis=1, keepdims=True))
    return found
