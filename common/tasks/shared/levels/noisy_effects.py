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
_ITEMS_AT_ONCE = 1 << 17
"""All scales of so many take 130 MB."""


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
    scatter = _SCATTER[:, None] * spread**2 * mean_weight
    model = _Model(sums=sums, counts=counts, per_effect=_design(counts), scatter=scatter)
    lines, evidences = [], []
    for tau in _TAU * spread:
        fitted, evidence = model.fit(tau, line=_PRIOR_OF_LINE * spread)
        lines.append(fitted)
        evidences.append(evidence - 0.5 * (tau / (_USUAL_TAU * spread)) ** 2)
    likelihoods = np.concatenate(evidences)
    shares = np.exp(likelihoods - likelihoods.max())
    shares /= shares.sum()
    found = []
    for items in model.blocks():
        of_scales = [
            model.effects(tau, fitted, items) for tau, fitted in zip(_TAU * spread, lines, strict=True)
        ]
        found.append(shares @ np.concatenate(of_scales))
    return np.concatenate(found)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """Effects around a line, at several scales of scatter; of a large catalogue a block of items at a time."""

    sums: NoisySums
    counts: LikelyCounts
    per_effect: FloatArray
    """float64, shape (n_items, 2): what the line is of."""
    scatter: FloatArray
    """Variance of a sum for each unit of its count: float64, shape (n_scales, 1)."""

    def blocks(self) -> list[slice]:
        """All items, cut."""
        n_items = self.sums.values.size
        return [slice(start, start + _ITEMS_AT_ONCE) for start in range(0, n_items, _ITEMS_AT_ONCE)]

    def fit(self, tau: float, *, line: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The line, float64, shape (n_scales, 2, 1), and the log marginal likelihood with it integrated out, shape
        (n_scales,); ``tau`` is the deviation of effects around the line, ``line`` those of its priors, stars.
        """
        n_scales, width = self.scatter.size, self.per_effect.shape[1]
        precision, projected = np.zeros((n_scales, width, width)), np.zeros((n_scales, width))
        evidence = np.zeros(n_scales)
        for items in self.blocks():
            values, variances = self.sums.values[items], self._variances(tau, items)
            design = self._design(items)
            weighted = np.swapaxes(design / variances[:, :, None], 1, 2)
            precision += weighted @ design
            projected += weighted @ values
            evidence += np.sum(np.log(variances) + values**2 / variances, axis=1)
        precision = precision + np.diag(1.0 / line**2)
        fitted = np.asarray(np.linalg.solve(precision, projected[:, :, None]), dtype=np.float64)
        evidence -= (np.swapaxes(projected[:, :, None], 1, 2) @ fitted)[:, 0, 0]
        evidence += np.linalg.slogdet(precision)[1]
        return fitted, -0.5 * evidence

    def effects(self, tau: float, fitted: FloatArray, items: slice) -> FloatArray:
        """Posterior means of some items' effects, float64, shape (n_scales, n of them)."""
        left = self.sums.values[items] - (self._design(items) @ fitted)[:, :, 0]
        pull = tau**2 * self.counts.mean[items]
        found: FloatArray = (self.per_effect[items] @ fitted)[:, :, 0]
        return found + pull / self._variances(tau, items) * left

    def _design(self, items: slice) -> FloatArray:
        return self.per_effect[items] * self.counts.mean[items, None]

    def _variances(self, tau: float, items: slice) -> FloatArray:
        mean = self.counts.mean[items]
        of_effects = tau**2 * (mean**2 + self.counts.variance[items])
        return of_effects + self.scatter * mean + self.sums.variances[items]
