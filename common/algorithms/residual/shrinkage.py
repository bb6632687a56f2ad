"""Empirical Bayes for noisy item estimates whose noise is known exactly: post-processing, costs no privacy.

Model: estimate_i = truth_i + error_i with error covariance N_i known from the released noise, and
truth_i ~ Normal(W^T phi_i, S). W and S are fitted to the estimates themselves, then each truth is replaced by
its posterior mean. Items that many users rated keep their estimate; the others move to what items like them are.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray

Covariance = Callable[[int, int], FloatArray]
"""(first item, last) -> float64 (last - first, width, width): noise covariances N_i of a block of items."""

_SWEEPS = 2  # W and S depend on each other; a second sweep settles them
_ITEMS_AT_ONCE = 2048
_LEAST_VARIANCE = 1e-4
_FIRST_VARIANCE = 0.3  # where sweeps start
_LEAST_PULL = 1e-9  # keeps matrices positive definite; squared stars
_SIMULATED = 40  # with 20, one of seven draws of pure noise is taken for items that differ
_KEPT_DRAWS = 1 << 22
"""Normal numbers of one fit, 32 MB: of more items they are drawn anew in each sweep."""
_LEAST_NOISE = 1e-18  # variance added where noise is drawn: without any there would be no root


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Item estimates and their noise. Public: released, or computed from what was."""

    values: FloatArray
    """float64, shape (n_items, width)."""
    covariance: Covariance

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Blocks of items with their noise covariances; all of them at once would be n_items width^2 numbers."""
        n_items = self.values.shape[0]
        for first in range(0, n_items, _ITEMS_AT_ONCE):
            last = min(first + _ITEMS_AT_ONCE, n_items)
            yield slice(first, last), self.covariance(first, last)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What is believed of an item before its own estimate is looked at."""

    means: FloatArray
    """float64, shape (n_items, width): W^T phi_i."""
    covariance: FloatArray
    """S: float64, shape (width, width), positive definite."""


def fit_prior(estimates: Estimates, design: FloatArray | None, *, ridge: float) -> Prior:
    """Fit W and S to estimates; what is not beyond the noise, direction by direction, is no signal.

    As ``fit_prior_by_moments``, but the weighted moment is looked at in units of its own noise, and of its
    eigenvalues only those above the largest that noise alone gives count, each freed of what noise adds. Where
    that edge lies is simulated from the noise covariances, which are known exactly. The first coordinate, the bias,
    is also looked at alone, where the edge is lower.

    Args:
        estimates: what to fit.
        design: phi, float64, shape (n_items, n_features), first column 1; None for prior mean 0. Public.
        ridge: pulls the features' coefficients (not the constant's) to 0; in units of observations.

    Reference: D. Donoho, M. Gavish and I. Johnstone (2018), doi:10.1214/17-AOS1601.
    """
    width = estimates.values.shape[1]
    means, covariance = np.zeros_like(estimates.values), _FIRST_VARIANCE * np.eye(width)
    whole, first = _simulation(estimates), _simulation(_first_of(estimates))
    for _ in range(_SWEEPS + 1):
        if design is not None:
            means = _regressed(estimates, design, covariance + _LEAST_PULL * np.eye(width), ridge)
        errors = estimates.values - means
        found = _beyond_noise(*_surprises(whole(), errors, covariance))
        if width > 1:
            alone = _beyond_noise(*_surprises(first(), errors[:, :1], covariance[:1, :1]))
            found[0, 0] = max(found[0, 0], alone[0, 0])
        covariance = found
    return Prior(means=means, covariance=covariance + _LEAST_PULL * np.eye(width))


_Blocks = Iterable[tuple[slice, FloatArray, Iterable[FloatArray]]]
"""Blocks of items, their noise covariances, and ``_SIMULATED`` times noise of shape (items, width)."""


def _simulation(estimates: Estimates) -> Callable[[], _Blocks]:
    """Noise that is drawn with the covariances of the estimates: the same in every sweep, so kept where small."""
    if _SIMULATED * estimates.values.size > _KEPT_DRAWS:
        return lambda: _simulated(estimates)
    kept = [(block, noise, list(drawn)) for block, noise, drawn in _simulated(estimates)]
    return lambda: kept


def _simulated(estimates: Estimates) -> _Blocks:
    """By one generator each, so that blocks may be of any size. Nothing here protects anybody."""
    generators = [np.random.default_rng(number) for number in range(_SIMULATED)]
    for block, noise in estimates.blocks():
        roots = np.linalg.cholesky(noise + _LEAST_NOISE * np.eye(noise.shape[1]))
        shape = noise.shape[:2]
        yield block, noise, (np.einsum("iab,ib->ia", roots, rng.standard_normal(shape)) for rng in generators)


def _surprises(
    blocks: _Blocks, errors: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Weighted second moments of estimates around their prior means, of their noise, and of simulated noise.

    float64, shapes (width, width), (width, width) and (_SIMULATED, width, width).
    """
    width = covariance.shape[0]
    found, noise_of_all, total = np.zeros((width, width)), np.zeros((width, width)), 0.0
    simulated = np.zeros((_SIMULATED, width, width))
    for block, noise, draws in blocks:
        weights = 1.0 / np.trace(noise + covariance, axis1=1, axis2=2) ** 2
        own = np.ascontiguousarray(errors[block])  # a column of several is added up in another order
        found += (own * weights[:, None]).T @ own
        noise_of_all += np.einsum("i,iab->ab", weights, noise)
        total += float(weights.sum())
        for drawn, moment in zip(draws, simulated, strict=True):
            moment += (drawn * weights[:, None]).T @ drawn
    return found / total, noise_of_all / total, simulated / total


def _beyond_noise(moment: FloatArray, noise: FloatArray, simulated: FloatArray) -> FloatArray:
    """S: positive semi-definite, float64, shape (width, width)."""
    values, axes = np.linalg.eigh(noise)
    values = np.maximum(values, max(1e-12 * values[-1], _LEAST_NOISE))
    root, whitening = (axes * np.sqrt(values)) @ axes.T, (axes / np.sqrt(values)) @ axes.T
    edge = float(np.linalg.eigvalsh(whitening @ simulated @ whitening)[:, -1].max())
    seen, directions = np.linalg.eigh(whitening @ moment @ whitening)
    # The edge of n samples in D dimensions is (1 + sqrt(D / n))^2: so noise spreads as if D / n were this.
    ratio = max(np.sqrt(edge) - 1.0, 0.0) ** 2
    shifted = seen + 1.0 - ratio
    freed = 0.5 * (shifted + np.sqrt(np.maximum(shifted**2 - 4.0 * seen, 0.0))) - 1.0
    kept = np.where(seen > edge, np.maximum(freed, 0.0), 0.0)
    found: FloatArray = root @ (directions * kept) @ directions.T @ root
    return 0.5 * (found + found.T)


def _first_of(estimates: Estimates) -> Estimates:
    """The first coordinates alone."""
    return Estimates(
        values=estimates.values[:, :1],
        covariance=lambda first, last: estimates.covariance(first, last)[:, :1, :1],
    )


def fit_prior_by_moments(estimates: Estimates, design: FloatArray | None, *, ridge: float) -> Prior:
    """Fit W and S to estimates by moments, each item weighted by how sure its estimate is.

    ``S = sum_i a_i (e_i e_i^T - N_i) / sum_i a_i``, projected on positive definite matrices, with e_i the
    estimate less its prior mean and a_i = 1 / trace(S + N_i)^2; W by weighted ridge regression, coordinate by
    coordinate.

    Args:
        estimates: what to fit.
        design: phi, float64, shape (n_items, n_features), first column 1; None for prior mean 0. Public.
        ridge: pulls the features' coefficients (not the constant's) to 0; in units of observations.

    Reference: the precision-weighted moment estimator of Morris (1983), doi:10.1080/01621459.1983.10477920.
    """
    width = estimates.values.shape[1]
    means, covariance = np.zeros_like(estimates.values), np.eye(width)
    for _ in range(1 if design is None else _SWEEPS):
        if design is not None:
            means = _regressed(estimates, design, covariance, ridge)
        covariance = _moment(estimates, means, covariance)
    return Prior(means=means, covariance=covariance)


def posterior_means(estimates: Estimates, prior: Prior) -> FloatArray:
    """``prior_i + S (S + N_i)^-1 (estimate_i - prior_i)``, float64, shape (n_items, width)."""
    found = np.empty_like(estimates.values)
    for block, noise in estimates.blocks():
        surprise = estimates.values[block] - prior.means[block]
        pulled = np.linalg.solve(prior.covariance + noise, surprise[:, :, None])[:, :, 0]
        found[block] = prior.means[block] + pulled @ prior.covariance
    return found


def _regressed(estimates: Estimates, design: FloatArray, covariance: FloatArray, ridge: float) -> FloatArray:
    means = np.empty_like(estimates.values)
    spread = np.empty_like(estimates.values)
    for block, noise in estimates.blocks():
        spread[block] = np.diagonal(noise, axis1=1, axis2=2) + np.diag(covariance)
    for column in range(means.shape[1]):
        weighted = design / spread[:, column, None]
        normal = weighted.T @ design
        pull = np.full(design.shape[1], ridge / covariance[column, column])
        pull[0] = 0.0
        normal += np.diag(pull)
        means[:, column] = design @ np.linalg.solve(normal, weighted.T @ estimates.values[:, column])
    return means


def _moment(estimates: Estimates, means: FloatArray, covariance: FloatArray) -> FloatArray:
    width = covariance.shape[0]
    total, sum_of_weights = np.zeros((width, width)), 0.0
    for block, noise in estimates.blocks():
        weights = 1.0 / np.trace(noise + covariance, axis1=1, axis2=2) ** 2
        errors = estimates.values[block] - means[block]
        total += (errors * weights[:, None]).T @ errors - np.einsum("i,iab->ab", weights, noise)
        sum_of_weights += float(weights.sum())
    return positive_definite(total / sum_of_weights, least=_LEAST_VARIANCE)


def positive_definite(matrix: FloatArray, *, least: float) -> FloatArray:
    """The symmetric matrix (or stack of them) with every eigenvalue raised to at least ``least``."""
    values, vectors = np.linalg.eigh(matrix)
    raised: FloatArray = (vectors * np.maximum(values, least)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return raised


_LEAST_SHARE = 1e-3


def credible_curvature(
    noisy: FloatArray, moment: FloatArray, weighted_counts: FloatArray, stddev: float
) -> FloatArray:
    """``c_i M + k_i (H_i - c_i M)`` with ``k_i = t_i / (t_i + stddev^2)``, made positive definite.

    t_i, the variance of what an item's users differ from the average user, is taken to grow as
    ``a c_i + b c_i^2``, fitted to the noisy matrices. A noisy H_i as it is would make long steps in random
    directions where few users rated.

    Args:
        noisy: H_i, float64, shape (n_items, width, width). Public.
        moment: M / n, float64, shape (width, width).
        weighted_counts: c_i > 0, float64, shape (n_items,).
        stddev: noise deviation of a diagonal entry.

    Returns:
        float64, shape (n_items, width, width).
    """
    prior = weighted_counts[:, None, None] * moment
    differences = noisy - prior
    width = moment.shape[0]
    numbers = width * (width + 1) / 2
    excess = np.einsum("iab,iab->i", differences, differences) / numbers - stddev**2
    variance = np.maximum(_fitted(excess, weighted_counts, stddev), 0.0)
    keep = variance / (variance + stddev**2)
    blended = prior + keep[:, None, None] * differences
    least = _LEAST_SHARE * float(np.trace(moment)) / width
    scaled = positive_definite(blended / weighted_counts[:, None, None], least=least)
    return scaled * weighted_counts[:, None, None]


def _fitted(excess: FloatArray, counts: FloatArray, stddev: float) -> FloatArray:
    columns = np.stack([counts, counts**2], axis=1)
    weights = 1.0 / (stddev**2 + (0.03 * counts) ** 2)
    coefficients = np.linalg.lstsq(columns * weights[:, None], excess * weights, rcond=None)[0]
    fitted: FloatArray = columns @ np.maximum(coefficients, 0.0)
    return fitted
