"""Label-private linear regression: any linear unbiased estimator with Laplace noise, and the best of them.

``beta_hat = C y`` with ``C X = I``; exchanging one user's labels moves it by at most ``B max_l sum |c_ji|`` over
her rows, in L1. Features, and whose rows they are, are public.

Reference: Epasto et al. (2020), sec. 5, Algorithm 3 and Theorem 6.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedboard import Ledger
from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.errors import FedboardError, InputError, PrivacyError
from fedboard.common.privacy.accounting.exact import require_epsilon
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.pure import LaplaceRelease
from research.epasto.bounding import GRID_BOUND, on_grid

_UNBIASED = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearEstimator:
    """Algorithm 3, GWA_C. Every field is public."""

    matrix: FloatArray
    """C, float64, shape (d, n), with ``C X = I``."""
    features: FloatArray
    """X, float64, shape (n, d)."""
    users: IntArray
    """int, shape (n,): whose row it is."""
    label_range: tuple[float, float]
    """Labels are clipped to it; its width is B."""
    public_because: str
    """Why features and whose they are may be known to everybody."""

    def __post_init__(self) -> None:
        """Check that it estimates without bias and that the statement is there.

        Raises:
            InputError: shapes do not fit, ``C X`` is not the identity, or the range is empty.
            PrivacyError: nothing is stated.
        """
        n, d = self.features.shape
        if self.matrix.shape != (d, n) or self.users.shape != (n,):
            raise InputError(
                f"an estimator for {n} rows of {d} features needs C of shape ({d}, {n}), one user a row"
            )
        if not float(np.abs(self.matrix @ self.features - np.eye(d)).max()) <= _UNBIASED:
            raise InputError("C X must be the identity, or the estimate is biased")
        if not -math.inf < self.label_range[0] < self.label_range[1] < math.inf:
            raise InputError(f"a range of labels needs low < high, got {self.label_range}")
        if not self.public_because.strip():
            raise PrivacyError(
                "label privacy protects labels only: say in public_because why features and whose they are may be "
                "known to everybody"
            )

    @property
    def largest_share(self) -> float:
        """``max_l sum_j sum_{i in S_l} |c_ji|``."""
        return float(np.bincount(self.users, weights=np.abs(self.matrix).sum(axis=0)).max())

    def noise_scale(self, epsilon: float) -> float:
        """Scale b of the Laplace noise on each coefficient, ``B largest_share / epsilon``."""
        return (self.label_range[1] - self.label_range[0]) * self.largest_share / epsilon

    def variance(self, *, label_variance: float, epsilon: float) -> float:
        """Total variance of the coefficients, Theorem 6: ``label_variance |C|^2 + 2 d b^2``."""
        spread = label_variance * float(np.sum(self.matrix**2))
        scale = self.noise_scale(epsilon)
        return spread + 2.0 * len(self.matrix) * scale * scale

    def release(self, name: str, *, epsilon: float) -> LaplaceRelease:
        """The release that publishes the coefficients.

        Raises:
            PrivacyError: no finite epsilon > 0.
        """
        require_epsilon(epsilon)
        return LaplaceRelease(
            name=name,
            width=self.matrix.shape[0],
            grid_step=self._largest_contribution / GRID_BOUND,
            l1_bound=GRID_BOUND,
            adjacency=Adjacency.REPLACE_LABELS,
            noise_multiplier=1.0 / epsilon,
            covers=f"regression coefficients; features and whose they are is public because {self.public_because}",
        )

    def contributions(self, labels: FloatArray) -> IntArray:
        """Each user's part ``sum C_i (y_i - centre)``, on the grid, int64, shape (n_users, d). Private.

        Raises:
            InputError: another number of labels than of rows.
            PrivacyError: a label is NaN.
        """
        if labels.shape != self.users.shape:
            raise InputError(f"there must be one label a row, got {labels.size} for {self.users.size}")
        if np.isnan(labels).any():
            raise PrivacyError("labels must be numbers; NaN was refused")
        centred = np.clip(labels, *self.label_range) - self._centre
        parts = [np.bincount(self.users, weights=row * centred) for row in self.matrix]
        return on_grid(np.stack(parts, axis=1) / self._largest_contribution)

    def answer(
        self, labels: FloatArray, *, name: str, epsilon: float, ledger: Ledger, noise: NoiseSource
    ) -> FloatArray:
        """Book, draw, and return the private coefficients, float64, shape (d,).

        Args:
            labels: shape (n,). Private.
            name: of the release.
            epsilon: its cost.
            ledger: pays; its adjacency must be ``replace-labels``.
            noise: where the draws come from.

        Raises:
            BudgetExceededError: the budget does not cover it.
        """
        total = self.contributions(labels).sum(axis=0)
        booked = self.release(name, epsilon=epsilon).book(ledger, noise)
        found: FloatArray = booked.publish(total) + self._centre * self.matrix.sum(axis=1)
        return found

    @property
    def _centre(self) -> float:
        return 0.5 * (self.label_range[0] + self.label_range[1])

    @property
    def _largest_contribution(self) -> float:
        return 0.5 * (self.label_range[1] - self.label_range[0]) * self.largest_share


def least_squares_matrix(features: FloatArray, rows: IntArray | None = None) -> FloatArray:
    """C of ordinary least squares on some of the rows, 0 on the others; float64, shape (d, n). Public.

    Args:
        features: X, shape (n, d). Public.
        rows: int, which rows count; None: all of them. Chosen without looking at labels.

    Raises:
        InputError: these rows do not determine the coefficients.
    """
    chosen = np.arange(features.shape[0]) if rows is None else rows
    picked = features[chosen]
    if np.linalg.matrix_rank(picked) < features.shape[1]:
        raise InputError(
            "the rows do not determine the coefficients: their rank is below the number of features"
        )
    matrix = np.zeros(features.shape[::-1])
    matrix[:, chosen] = np.linalg.pinv(picked)
    return matrix


def limited_rows(users: IntArray, limit: int, generator: np.random.Generator) -> IntArray:
    """At most ``limit`` random rows of each user: the baseline's sample; int64, ascending. Public.

    Args:
        users: int, shape (n,). Public.
        limit: h >= 1.
        generator: decides which; its draws need not be secret.
    """
    order = np.lexsort((generator.random(users.size), users))
    starts = np.searchsorted(users[order], users[order], side="left")
    kept: IntArray = np.sort(order[np.arange(users.size) - starts < limit]).astype(np.int64)
    return kept


def best_matrix(
    features: FloatArray, users: IntArray, *, label_variance: float, label_width: float, epsilon: float
) -> FloatArray:
    """The C of least total variance (Theorem 6), a convex programme for CVXPY; float64, shape (d, n). Public.

    Minimises ``label_variance |C|^2 + 2 d (label_width t / epsilon)^2`` where ``C X = I`` and no user's absolute
    values add to more than t. What the solver leaves of ``C X = I`` is put right afterwards; that it is not quite
    the minimum costs accuracy, never privacy, because the noise follows from the C that is used.

    Args:
        features: X, shape (n, d), of rank d. Public.
        users: int, shape (n,), ``0..n_users - 1``. Public.
        label_variance: of one label around the model; >= 0. A public guess.
        label_width: B > 0. Public.
        epsilon: > 0. Public.

    Raises:
        FedboardError: CVXPY is not installed, or found no solution.
        InputError: the rows do not determine the coefficients.
    """
    start = least_squares_matrix(features)
    cp = _cvxpy()
    from scipy.sparse import csr_array

    n, d = features.shape
    # In units of the plain estimator, so that the solver's tolerances mean something.
    scale = float(np.abs(start).sum(axis=0).max())
    matrix, size = cp.Variable((n, d)), cp.Variable((n, d))
    largest = cp.Variable()
    of_user = csr_array((np.ones(n), (users, np.arange(n))), shape=(int(users.max()) + 1, n))
    noise = math.sqrt(2.0 * d) * label_width / epsilon
    weight = max(noise, math.sqrt(label_variance))
    objective = (
        cp.sum_squares(matrix) * (label_variance / weight**2) + cp.square(largest) * (noise / weight) ** 2
    )
    constraints = [
        features.T @ matrix * scale == np.eye(d),
        matrix <= size,
        -matrix <= size,
        cp.sum(of_user @ size, axis=1) <= largest,
    ]
    problem = cp.Problem(cp.Minimize(objective), constraints)
    try:
        problem.solve(solver=cp.CLARABEL)
    except cp.error.SolverError as error:
        raise FedboardError(f"no best estimator was found: {error}") from None
    if matrix.value is None:
        raise FedboardError(f"no best estimator was found: the solver ended with {problem.status}")
    found = np.ascontiguousarray(matrix.value.T) * scale
    for _ in range(2):
        found = found + (np.eye(d) - found @ features) @ start
    return found


def _cvxpy() -> Any:
    try:
        import cvxpy
    except ImportError:
        raise FedboardError("this needs CVXPY: pip install '.[optimization]' in the checkout") from None
    return cvxpy
