"""Empirical Bayes for noisy item estimates whose noise is known exactly: post-processing, costs no privacy.

Model: estimate_i = truth_i + error_i with error covariance N_i known from the released noise, and
truth_i ~ Normal(W^T phi_i, S). W and S are fitted to the estimates themselves, then each truth is replaced by
its posterior mean. Items that many users rated keep their estimate; the others move to what items like them are.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray

Covariance = Callable[[int, int], FloatArray]
"""(first item, last) -> float64 (last - first, width, width): noise covariances N_i of a block of items."""

_SWEEPS = 2  # W and S depend on each other; a second sweep settles them
_ITEMS_AT_ONCE = 2048
_LEAST_VARIANCE = 1e-4


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
