"""Item effects behind noisy sums: Bayes with every scale integrated out, so that nothing is tuned. Post-processing.

Model of a release with known noise, for items i with weighted counts c_i known up to their own noise:

    T_i = c_i b_i + error_i,   b_i ~ Normal(a + slope x_i, tau^2),
    Var(error_i) = noise_i^2 + s c_i,

with x_i the log count around its mean and s c_i what the ratings themselves scatter. ``a`` and ``slope`` have
normal priors and are integrated exactly; tau and s are averaged over a grid by their marginal likelihood. Nothing
divides by a noisy count: ``b_i`` is the linear posterior mean, which goes to ``a + slope x_i`` where a count is in
doubt, and all of it goes to zero as the noise grows.
"""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.tasks.shared.levels.noisy_counts import LikelyCounts

_TAU = np.concatenate([[0.0], np.geomspace(0.02, 1.2, 24)])
"""Deviation of the effects around their prior mean, in units of ``spread``."""
_USUAL_TAU = 0.5
"""Scale of the half-normal prior of tau, in the same unit: so wide that a thousand items outvote it."""
_SCATTER = np.array([0.2, 0.3, 0.45, 0.65, 0.9])
"""Variance of a rating around its prediction, in units of ``spread^2``."""
_PRIOR_OF_LINE = np.array([0.1, 0.08])
"""Deviations of the priors of a and slope, in units of ``spread``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisySums:
    """One sum for each item. Public."""

    values: FloatArray
    """T: float64, shape (n_items,)."""
    variances: FloatArray
    """Of the noise in them: float64, shape (n_items,), > 0."""


def posterior_effects(
    sums: NoisySums, counts: LikelyCounts, *, spread: float, mean_weight: float
) -> FloatArray:
    """Posterior mean of b: float64, shape (n_items,).

    Args:
        sums: T with their noise.
        counts: c, sums of the same weights without the ratings.
        spread: deviation of ratings within an average user, stars; > 0. Public or released.
        mean_weight: mean of ``sum_j w_ij^2 / sum_j w_ij`` over items: how much of a count is one rating; in (0, 1].
    """
    per_effect = _design(counts)
    design = per_effect * counts.mean[:, None]
    scattered = _SCATTER[:, None] * spread**2 * mean_weight * counts.mean
    found, weights = [], []
    for tau in _TAU * spread:
        of_effects = tau**2 * (counts.mean**2 + counts.variance)
        effects, evidence = _given_scales(
            sums.values,
            of_effects + scattered + sums.variances,
            design,
            pull=tau**2 * counts.mean,
            line=_PRIOR_OF_LINE * spread,
            per_effect=per_effect,
        )
        found.append(effects)
        weights.append(evidence - 0.5 * (tau / (_USUAL_TAU * spread)) ** 2)
    evidences = np.concatenate(weights)
    shares = np.exp(evidences - evidences.max())
    posterior: FloatArray = (shares / shares.sum()) @ np.concatenate(found)
    return posterior


def confounding(first: NoisySums, second: NoisySums, counts: FloatArray, *, spread: float) -> float:
    """How far apart two estimates of the same effects are beyond their noise: a variance, squared stars.

    The likeliest k >= 0 of ``first_i - second_i ~ Normal(0, noise variances + k c_i^2)``.
    """
    apart = (first.values - second.values) ** 2
    known = first.variances + second.variances
    candidates = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 30)]) * spread**2
    likelihoods = []
    for candidate in candidates:
        variances = known + candidate * counts**2
        likelihoods.append(-0.5 * float(np.sum(np.log(variances) + apart / variances)))
    return float(candidates[int(np.argmax(likelihoods))])


def _design(counts: LikelyCounts) -> FloatArray:
    """1 and the log of the count around its weighted mean; float64, shape (n_items, 2)."""
    logs = np.log(np.maximum(counts.mean, 0.5))
    centre = np.average(logs, weights=counts.mean + 1e-9)
    return np.stack([np.ones(logs.size), logs - centre], axis=1)


def _given_scales(
    values: FloatArray,
    variances: FloatArray,
    design: FloatArray,
    *,
    pull: FloatArray,
    line: FloatArray,
    per_effect: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Posterior mean of the effects and log marginal likelihood, with the line integrated out.

    For several scales at once: variances, float64, shape (n_scales, n_items), give shapes (n_scales, n_items) and
    (n_scales,).
    """
    weighted = np.swapaxes(design / variances[:, :, None], 1, 2)
    precision = weighted @ design + np.diag(1.0 / line**2)
    projected = (weighted @ values)[:, :, None]
    fitted = np.linalg.solve(precision, projected)
    evidence = np.sum(np.log(variances) + values**2 / variances, axis=1)
    evidence -= (np.swapaxes(projected, 1, 2) @ fitted)[:, 0, 0]
    evidence += np.linalg.slogdet(precision)[1]
    left = values - (design @ fitted)[:, :, 0]
    effects: FloatArray = (per_effect @ fitted)[:, :, 0] + pull / variances * left
    return effects, -0.5 * evidence
