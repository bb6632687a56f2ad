"""How many people, how many for each item, which ratings: what tasks release before anything is learnt.

Private counts to which every user gives the same amount, however many items she has: no cap to tune.

Private sums per item to which every user gives at most the same norm, however many items she has.

A user's part is ``w_ij r_ij`` with ``w_ij = f_j / sqrt(n_j)``, ``f_j = min(1, C / rms(r_j))``: its norm is at most
C, and the factor enters the counts too, so that it biases no mean.

Counts behind released counts: the posterior under a prior that is fitted to all of them. Post-processing.

Model: ``released_i = count_i + Normal(0, stddev^2)``, counts drawn from one unknown distribution on [0, inf). It is
fitted on a grid by maximum likelihood, so that there is no parameter to tune: where nobody rated, where all items
are alike and where a few are rated by everybody.

Reference: J. Kiefer and J. Wolfowitz (1956), doi:10.1214/aoms/1177728066; on a fixed grid: R. Koenker and I. Mizera
(2014), doi:10.1080/01621459.2013.869224.

Item effects behind noisy sums: Bayes with every scale integrated out, so that nothing is tuned. Post-processing.

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

from fedboard.common.algorithms.shared.preparation import answer
from fedboard.common.algorithms.shared.ratings_config import RatingsConfig
from fedboard.common.algorithms.shared.sums import item_counts, item_vectors, real_stddev
from fedboard.common.arrays import FloatArray
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.contribution_bounding.clipping import clip_responses, clip_vectors, quantise_weights
from fedboard.common.task import ReleasedSums


def even_weights(cohort: Cohort) -> FloatArray:
    """1 / sqrt(n_j) on each rating of user j, so that the squares of a row sum to 1.

    Returns:
        float64, shape (n_ratings,). Private.
    """
    return np.repeat(1.0 / np.sqrt(np.maximum(cohort.counts, 1)), cohort.counts)


def even_counts_request(shared: RatingsConfig, *, n_items: int, name: str = "counts") -> Request:
    """``c_i = sum_j w_ij`` for weights whose squares sum to at most 1 for each user."""
    covers = "c_i = sum of w per item, w at most 1 / sqrt(ratings of the user)"
    return item_counts(shared, name, n_items=n_items, covers=covers)


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


_LARGEST = 8.0  # bound on one residual, in deviations; larger ones are clipped
_INSIDE = 1.0 - 1e-6  # keeps a bounded row inside its bound whatever floating point does


def even_sums_request(shared: RatingsConfig, name: str, *, n_items: int, clip_norm: float) -> Request:
    """The whole part of a user of norm at most ``clip_norm``.

    In units of the released deviation of ratings, so that what is booked is the same whatever that is.
    """
    return item_vectors(
        shared,
        name,
        n_items=n_items,
        largest=_LARGEST,
        clip_norm=clip_norm,
        covers="sum of w r per item, r what the board leaves of a rating in units of their released deviation, "
        "each user's part bounded as a whole",
    )


def even_rows(cohort: Cohort, left: FloatArray, *, spread: float, clip_norm: float) -> Contribution:
    """The integers of counts and sums; each row depends on that user's row alone.

    Args:
        cohort: the users. Private.
        left: r, what the board leaves of each rating, stars; float64, shape (n_ratings,). Private.
        spread: released deviation of ratings, stars. Public.
        clip_norm: C > 0, in units of it. Public.
    """
    rows = cohort.user_of_entry()
    bounded = np.clip(left / spread, -_LARGEST, _LARGEST)
    weights = even_weights(cohort)
    squares = np.bincount(rows, weights=np.square(weights * bounded), minlength=cohort.n_users)
    factors = np.minimum(1.0, _INSIDE * clip_norm / np.sqrt(np.maximum(squares, 1e-300)))
    return answer(
        cohort,
        weights=quantise_weights(weights * factors[rows]),
        vectors=clip_vectors(np.ones((cohort.n_users, 1), dtype=np.float32), 1.0),
        responses=clip_responses(bounded, _LARGEST),
    )


def released_sums(released: ReleasedSums, request: Request, *, spread: float) -> NoisySums:
    """The sums with the noise that is in them, stars."""
    values = spread * released.array(request.name)[:, 0]
    noise = (spread * real_stddev(request) * released.noise_ratio) ** 2
    return NoisySums(values=values, variances=np.full(values.size, noise))
