"""The server's part of residual alternating minimisation: from noised sums to new item coordinates.

Everything here is post-processing of releases and of what is public. Item coordinates are
B_i = (b_i / bias_scale, u_i), so that a prediction is <B_i, x_j> with x_j = (bias_scale, v_j).
"""

from dataclasses import dataclass, replace

import numpy as np

from fedboard.common.algorithms.residual.config import ResidualConfig
from fedboard.common.algorithms.residual.shrinkage import (
    Covariance,
    Estimates,
    fit_prior,
    fit_prior_by_moments,
    positive_definite,
    posterior_means,
)
from fedboard.common.algorithms.shared.levels import LikelyCounts, NoisySums, posterior_effects
from fedboard.common.arrays import FloatArray

_LEAST_SHARE = 1e-3  # of the mean eigenvalue: below it a direction is taken to hold nothing but noise
USUAL_TRACE = 0.6  # of bound^2: a usual trace of M / n
_LEAST_LEVEL = 0.1
_NOISE_FLOOR = 2.0  # an eigenvalue below it could be anything up to it: the larger one makes the shorter step
_LEAST_VARIANCE = 1e-18  # of a measurement: without any noise it would be known for ever
_CREDIBLE = 0.3  # how far a weighted count may be from what the plain count predicts, relatively


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedRound:
    """The noised sums of one round, as matrices in real units. Public."""

    linear: FloatArray
    """g_i: float64, shape (n_items, width)."""
    noise_stddev: float
    """Of each number of ``linear``."""
    moment: FloatArray
    """M / n: float64, shape (width, width), positive definite."""
    weighted_counts: FloatArray
    """c_i > 0: float64, shape (n_items,)."""
    count_variances: FloatArray
    """What is left to doubt in c_i; float64, shape (n_items,)."""
    mean_weights: FloatArray
    """Average weight of a rating of the item, in (0, 1]; float64, shape (n_items,)."""
    spread: float
    """Deviation of a rating, stars; 1 for presence."""
    unobserved: FloatArray
    """a_i >= 0: weight of the unobserved term, in units of c_i; zeros for explicit feedback."""
    curvature: FloatArray | None = None
    """H_i of every item, float64, shape (n_items, width, width), or None for c_i M / n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What rounds measured of the first coordinates, the biases over ``bias_scale``. Public."""

    values: FloatArray
    """float64, shape (n_items,)."""
    precisions: FloatArray
    """1 / variance of each, float64, shape (n_items,)."""
    alone: bool
    """Measured without factors: then the variance is that of the release noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemStep:
    """What a round makes of the items. Public."""

    coordinates: FloatArray
    """float64, shape (n_items, width)."""
    measured: Remembered
    """What was measured of the biases up to now."""
    bias_variance: float
    """How much items' first coordinates differ beyond noise."""


def new_coordinates(
    start: FloatArray,
    released: ReleasedRound,
    design: FloatArray | None,
    settings: ResidualConfig,
    *,
    remembered: Remembered | None,
) -> ItemStep:
    """One item step from ``start``, then shrinkage.

    estimate_i = start_i + step K_i^-1 (g_i - a_i M start_i / n) with K_i = H_i + a_i M / n, where a_i > 0 weighs
    the unobserved term of implicit feedback. Its noise covariance is step^2 K_i^-1 (sigma^2 I + noise_variance
    w_i H_i) K_i^-1: that of the release, which is known exactly, and that of the ratings themselves.

    An estimate does not depend on the release noise of earlier rounds, so what they measured of the biases, which
    mean the same in every round, is a second measurement: both are joined before the prior is fitted. How ratings
    scatter is the same in both, since they are the same ratings: it does not average out, and without factors is
    added afterwards. With factors it stays with each round, in place of what a bias changes when factors do.

    Args:
        start: float64, shape (n_items, width).
        released: of this round.
        design: what prior means may depend on.
        settings: public.
        remembered: measurements of earlier rounds, at what they are worth now.
    """
    gradient = released.linear - released.unobserved[:, None] * (start @ released.moment)
    step = _Step.of(released)
    values = start + settings.step * step.times(gradient)
    noise, scatter = step.release_noise(released, settings), step.rating_noise(released, settings)
    alone = settings.has_biases and values.shape[1] == 1
    estimates = Estimates(values=values, covariance=noise if alone else _sum(noise, scatter))
    measured = _measured(estimates, alone=alone)
    if remembered is not None:
        if remembered.alone and not alone:
            remembered = _less_sure(remembered, scatter)
        estimates, measured = _joined(estimates, remembered), _both(measured, remembered)
    if alone:
        estimates = replace(estimates, covariance=_sum(estimates.covariance, scatter))
        prior = fit_prior(estimates, design, ridge=settings.prior_ridge)
        coordinates = _biases_alone(measured, released, settings)
        variance = float(prior.covariance[0, 0])
        return ItemStep(coordinates=coordinates, measured=measured, bias_variance=variance)
    fit = fit_prior if settings.has_biases else fit_prior_by_moments
    prior = fit(estimates, design, ridge=settings.prior_ridge)
    wider = replace(prior, covariance=settings.prior_inflation * prior.covariance)
    return ItemStep(
        coordinates=posterior_means(estimates, wider),
        measured=measured,
        bias_variance=float(prior.covariance[0, 0]),
    )


def _biases_alone(measured: Remembered, released: ReleasedRound, settings: ResidualConfig) -> FloatArray:
    """Biases, where there are no factors: by the same Bayes as the floor, from all that was measured of them."""
    counts = LikelyCounts(mean=released.weighted_counts, variance=released.count_variances)
    scale = settings.bias_scale
    sums = NoisySums(
        values=scale * counts.mean * measured.values,
        variances=scale**2 * counts.mean**2 / measured.precisions,
    )
    weight = float(np.average(released.mean_weights, weights=counts.mean))
    effects = posterior_effects(sums, counts, spread=released.spread, mean_weight=weight)
    return effects[:, None] / scale


def _measured(estimates: Estimates, *, alone: bool) -> Remembered:
    """The estimates of the first coordinates alone, with their noise."""
    variances = _first_variances(estimates.covariance, estimates.values.shape[0])
    return Remembered(
        values=estimates.values[:, 0].copy(),
        precisions=1.0 / np.maximum(variances, _LEAST_VARIANCE),
        alone=alone,
    )


def _first_variances(covariance: Covariance, n_items: int) -> FloatArray:
    found = np.empty(n_items)
    for block, matrices in Estimates(values=found[:, None], covariance=covariance).blocks():
        found[block] = matrices[:, 0, 0]
    return found


def _less_sure(remembered: Remembered, scatter: Covariance) -> Remembered:
    """What was measured without factors, as a measurement among those with them."""
    variances = _first_variances(scatter, remembered.values.size) + 1.0 / np.maximum(
        remembered.precisions, _LEAST_VARIANCE
    )
    return replace(remembered, precisions=1.0 / variances, alone=False)


def _both(new: Remembered, old: Remembered) -> Remembered:
    precisions = new.precisions + old.precisions
    values = (new.precisions * new.values + old.precisions * old.values) / precisions
    return Remembered(values=values, precisions=precisions, alone=new.alone)


def _joined(estimates: Estimates, remembered: Remembered) -> Estimates:
    """Estimates of all coordinates after a second, independent measurement of the first: one Kalman update."""
    variances = 1.0 / np.maximum(remembered.precisions, 1e-12)

    def covariance(first: int, last: int) -> FloatArray:
        noise = estimates.covariance(first, last)
        gain = noise[:, :, 0] / (noise[:, 0, 0] + variances[first:last])[:, None]
        return noise - gain[:, :, None] * noise[:, None, 0, :]

    values = estimates.values.copy()
    for block, noise in estimates.blocks():
        gain = noise[:, :, 0] / (noise[:, 0, 0] + variances[block])[:, None]
        values[block] += gain * (remembered.values - estimates.values[:, 0])[block, None]
    return Estimates(values=values, covariance=covariance)


def moment_matrix(noisy: FloatArray, *, stddev: float, population: float, bound: float) -> FloatArray:
    """M / n from its noised sum, pulled to a multiple of the identity as far as its noise demands.

    The multiple: the mean eigenvalue as released, pulled itself to ``USUAL_TRACE bound^2 / width``, where it is in
    a usual round. Without this, few users would give directions of no second moment and endless steps.

    Args:
        noisy: the noised sum, float64, shape (width, width). Public.
        stddev: its noise deviation on the diagonal.
        population: n, released.
        bound: on ``|x_j|``.

    Returns:
        float64, shape (width, width), positive definite.
    """
    width, matrix, noise = noisy.shape[0], noisy / population, stddev / population
    usual = USUAL_TRACE * bound**2 / width
    level = _pulled(float(np.trace(matrix)) / width, usual, noise / np.sqrt(width))
    level = max(level, _LEAST_LEVEL * usual)
    isotropic = level * np.eye(width)
    apart = matrix - isotropic
    spread = float(np.sum(apart**2))
    expected = noise**2 * width * (width + 1) / 2  # of noise alone, in isometric coordinates
    keep = max(0.0, 1.0 - expected / spread) if spread > 0 else 0.0
    least = min(max(_LEAST_SHARE * level, _NOISE_FLOOR * noise), level)
    return positive_definite(isotropic + keep * apart, least=least)


def _pulled(value: float, usual: float, stddev: float) -> float:
    """A noisy number pulled to where it usually is, which is known to within half of itself."""
    believed = (usual / 2) ** 2
    return usual + believed / (believed + stddev**2) * (value - usual)


def credible_weighted_counts(
    noisy: FloatArray, counts: FloatArray, exponent: float, *, stddev: float, counts_stddev: float
) -> LikelyCounts:
    """Weighted counts c_i, each pulled to what the item's plain count predicts as far as noise demands.

    Prediction: ``n_i^(1 - mu)`` times one constant, itself uncertain by what the noise of n_i may move it.
    Without it a rare item's c_i is mostly noise, and a small one makes a long step.

    Args:
        noisy: released c_i, float64, shape (n_items,). Public.
        counts: released n_i, floored at 1, float64, shape (n_items,). Public.
        exponent: mu of the weights.
        stddev: noise deviation of ``noisy``.
        counts_stddev: noise deviation of ``counts``.
    """
    shape = counts ** (1.0 - exponent)
    scale = max(float(shape @ noisy), 1.0) / float(shape @ shape)
    predicted = scale * shape
    moved = scale * (counts + counts_stddev) ** (1.0 - exponent) - predicted
    believed = np.square(_CREDIBLE * predicted) + np.square(moved)
    trust = believed / (believed + stddev**2)
    shrunk: FloatArray = predicted + trust * (noisy - predicted)
    return LikelyCounts(mean=np.maximum(shrunk, _CREDIBLE), variance=trust * stddev**2)


def gauge(factors: FloatArray, moment: FloatArray, counts: FloatArray) -> FloatArray:
    """The change of coordinates T after which users' vectors vary by a known amount in known directions.

    ``u T`` and ``v T^-T`` predict the same. After it the users' second moment is the identity over the rank, and
    the items' is diagonal.

    Args:
        factors: u_i, float64, shape (n_items, rank).
        moment: of v, float64, shape (rank, rank), positive definite.
        counts: released n_i, float64, shape (n_items,).

    Returns:
        T: float64, shape (rank, rank).
    """
    values, vectors = np.linalg.eigh(moment)
    whitening = (vectors * np.sqrt(values)) @ vectors.T
    whitened = factors @ whitening
    _, axes = np.linalg.eigh((whitened * counts[:, None]).T @ whitened / counts.sum())
    change: FloatArray = whitening @ axes / np.sqrt(1.0 / factors.shape[1])
    return change


@dataclass(frozen=True, slots=True)
class _Step:
    """K_i^-1 of every item: one matrix divided by a number per item, or a matrix per item."""

    inverse: FloatArray
    """float64, shape (1 or n_items, width, width)."""
    scales: FloatArray
    """float64, shape (n_items,); ones beside a matrix per item."""

    @staticmethod
    def of(released: ReleasedRound) -> "_Step":
        """Of a round: K_i = H_i + a_i M / n."""
        matrix, scales = released.moment[None], released.weighted_counts + released.unobserved
        if released.curvature is not None:
            matrix = released.curvature + released.unobserved[:, None, None] * released.moment
            scales = np.ones_like(scales)
        return _Step(np.linalg.inv(matrix).astype(np.float64, copy=False), scales)

    def times(self, vectors: FloatArray) -> FloatArray:
        """K_i^-1 times a vector per item."""
        if len(self.inverse) == 1:
            shared: FloatArray = vectors @ self.inverse[0] / self.scales[:, None]
            return shared
        own: FloatArray = np.einsum("iab,ib->ia", self.inverse, vectors)
        return own

    def release_noise(self, released: ReleasedRound, settings: ResidualConfig) -> Covariance:
        """What the noise of this round's release does to each estimate."""
        noise = (settings.step * released.noise_stddev) ** 2

        def covariance(first: int, last: int) -> FloatArray:
            inverse = self.inverse[0] if len(self.inverse) == 1 else self.inverse[first:last]
            found: FloatArray = noise * inverse @ inverse / self.scales[first:last, None, None] ** 2
            return found

        return covariance

    def rating_noise(self, released: ReleasedRound, settings: ResidualConfig) -> Covariance:
        """What the scatter of the ratings themselves does to each estimate."""
        own = settings.step**2 * settings.noise_variance * released.spread**2 * released.mean_weights

        def covariance(first: int, last: int) -> FloatArray:
            block = slice(first, last)
            inverse: FloatArray = self.inverse
            if released.curvature is None:
                scatter: FloatArray = (own * released.weighted_counts)[block] / self.scales[block] ** 2
                found: FloatArray = scatter[:, None, None] * inverse
            else:
                inverse = inverse[block]
                found = inverse @ (own[block, None, None] * released.curvature[block]) @ inverse
            return found

        return covariance


def _sum(one: Covariance, other: Covariance) -> Covariance:
    """Of two independent errors."""
    return lambda first, last: one(first, last) + other(first, last)
