"""The estimators that the paper compares, and their error with the noise averaged in closed form."""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.errors import InputError
from research.epasto.labels import (
    LinearEstimator,
    best_matrix,
    least_squares_matrix,
    limited_rows,
)
from research.epasto.problems import Problem

OURS, BEST_LIMIT, NO_LIMIT = "ours", "best-limit", "no-limit"
METHODS = (OURS, BEST_LIMIT, NO_LIMIT)
_LIMITS = 14
"""How many thresholds the baseline may choose from, log-spaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Average squared error of the prediction on the rows themselves, by method, and the baseline's threshold."""

    of_method: dict[str, float]
    limit: int
    without_privacy: float


def errors_of(problem: Problem, *, epsilon: float, seed: int, samples: int = 3) -> Errors:
    """All methods on one problem.

    Args:
        problem: public data.
        epsilon: of one user's labels.
        seed: of the baseline's samples.
        samples: how many the baseline averages over, for each threshold.

    The variance of labels is that of ordinary least squares, as if it were public (paper, App. E.1.2). The baseline
    has the threshold of least mean error, read off the data for free: in its favour.
    """
    plain = least_squares_matrix(problem.features)
    residual = problem.features @ (plain @ problem.labels) - problem.labels
    variance = float(np.mean(residual**2))
    best = best_matrix(
        problem.features,
        problem.users,
        label_variance=variance,
        label_width=problem.label_width,
        epsilon=epsilon,
    )
    limit, limited = _best_limit(problem, epsilon=epsilon, seed=seed, samples=samples)
    return Errors(
        of_method={
            OURS: expected_error(problem, best, epsilon=epsilon),
            BEST_LIMIT: limited,
            NO_LIMIT: expected_error(problem, plain, epsilon=epsilon),
        },
        limit=limit,
        without_privacy=variance,
    )


def expected_error(problem: Problem, matrix: FloatArray, *, epsilon: float) -> float:
    """Mean over the noise: ``|X C y - y|^2 / n + 2 b^2 trace(X^T X) / n``, b the scale of the Laplace noise."""
    estimator = LinearEstimator(
        matrix=matrix,
        features=problem.features,
        users=problem.users,
        label_range=problem.label_range,
        public_because="the data set is public",
    )
    residual = problem.features @ (matrix @ problem.labels) - problem.labels
    energy = float(np.sum(problem.features**2)) / problem.labels.size
    return float(np.mean(residual**2)) + 2.0 * estimator.noise_scale(epsilon) ** 2 * energy


def _best_limit(problem: Problem, *, epsilon: float, seed: int, samples: int) -> tuple[int, float]:
    largest = int(problem.sizes.max())
    limits = np.unique(np.rint(np.geomspace(1, largest, _LIMITS)).astype(int))
    found: dict[int, float] = {}
    for limit in limits.tolist():
        errors = []
        for sample in range(samples):
            rows = limited_rows(problem.users, limit, np.random.default_rng([seed, limit, sample]))
            try:
                matrix = least_squares_matrix(problem.features, rows)
            except InputError:  # too few rows to tell all coefficients
                continue
            errors.append(expected_error(problem, matrix, epsilon=epsilon))
        if len(errors) == samples:
            found[limit] = float(np.mean(errors))
    best = min(found, key=lambda limit: found[limit])
    return best, found[best]
