"""The device's part of residual alternating minimisation: her own model, and her clipped contribution."""

from dataclasses import dataclass

import numpy as np

from fedboard.common import kernels
from fedboard.common.algorithms.residual.config import ResidualConfig
from fedboard.common.algorithms.residual.shrinkage import positive_definite
from fedboard.common.algorithms.shared.regression import gram_of, rated_rows
from fedboard.common.arrays import Float32Array, FloatArray
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution
from fedboard.common.contribution_bounding.clipping import clip_responses, clip_vectors, quantise_weights

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
    found: FloatArray = scaled * weighted_counts[:, None, None]
    return found


def _fitted(excess: FloatArray, counts: FloatArray, stddev: float) -> FloatArray:
    columns = np.stack([counts, counts**2], axis=1)
    weights = 1.0 / (stddev**2 + (0.03 * counts) ** 2)
    coefficients = np.linalg.lstsq(columns * weights[:, None], excess * weights, rcond=None)[0]
    fitted: FloatArray = columns @ np.maximum(coefficients, 0.0)
    return fitted


_INSIDE = 1.0 - 1e-6  # keeps a clipped contribution inside its bound whatever floating point does


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemModel:
    """What a device reads off the board. Public."""

    mean: float
    biases: Float32Array
    """float32, shape (n_items,)."""
    factors: Float32Array
    """float32, shape (n_items, rank)."""
    content: Float32Array | None = None
    """What public features add to own models, phi: float32, shape (n_items, content width); None for nothing."""

    @property
    def vectors(self) -> Float32Array:
        """What v_j, and h_j where there is content, are multiplied with: float32, shape (n_items, rank or more)."""
        return self.factors if self.content is None else np.hstack([self.factors, self.content])

    def left_of(self, cohort: Cohort) -> Float32Array:
        """Ratings less mean and item biases, float32, shape (n_ratings,). Private."""
        left: Float32Array = cohort.ratings - np.float32(self.mean)
        left -= self.biases.take(cohort.items)
        return left


def fit_users(
    cohort: Cohort,
    model: ItemModel,
    settings: ResidualConfig,
    *,
    backend: str,
    user_ridge: float,
    targets: Float32Array | None = None,
) -> Float32Array:
    """Solve each user's ridge regression for her bias c_j and embedding v_j exactly.

    ``min sum_i (y_ij - mean - b_i - c - <u_i, v>)^2 + k_j^e (user_bias_ridge c^2 + user_ridge |v|^2)``; for
    implicit feedback y = 1, without mean and biases, and with ``+ unobserved_weight sum_all <u_i, v>^2``. With
    content, ratings are explained by ``<phi_i, h>`` too, see ``kernels.solve_own_models``.

    Args:
        cohort: the users. Private.
        model: the board's.
        settings: public.
        backend: which kernels compute.
        user_ridge: its strength on v, squared stars; see ``ridges.user_ridge``.
        targets: what ``model.left_of`` gave, if it is at hand. Private.

    Returns:
        float32, shape (n_users, 1 + rank): (c_j, v_j), and h_j behind them where there is content; c_j = 0 for
        implicit feedback. Private, unclipped.
    """
    strength = user_ridge
    if not settings.has_biases:
        return _fit_presence(cohort, model, settings, strength, backend=backend)
    # One ridge for all coordinates: the constant column is scaled so that it stands for the bias's own ridge.
    scale = np.float32(np.sqrt(strength / settings.user_bias_ridge))
    rows, items = rated_rows(cohort.items, model.factors.shape[0])
    factors = model.factors[rows]
    columns = np.empty((factors.shape[0], 1 + factors.shape[1]), dtype=np.float32)
    columns[:, 0] = scale
    columns[:, 1:] = factors
    targets = model.left_of(cohort) if targets is None else targets
    ridge = _ridge(cohort, settings, strength)
    if model.content is None:
        solved = kernels.solve_ridge(cohort.indptr, items, targets, columns, ridge=ridge, backend=backend)
    else:
        solved, _ = kernels.solve_own_models(
            cohort.indptr, items, targets, columns, model.content[rows], ridge=ridge, backend=backend
        )
    solved[:, 0] *= scale
    return solved


def _fit_presence(
    cohort: Cohort, model: ItemModel, settings: ResidualConfig, strength: float, *, backend: str
) -> Float32Array:
    gram = None
    if settings.unobserved_weight > 0:
        gram = settings.unobserved_weight * gram_of(model.factors)
    local = np.zeros((cohort.n_users, 1 + model.factors.shape[1]), dtype=np.float32)
    local[:, 1:] = kernels.solve_ridge(
        cohort.indptr,
        cohort.items,
        cohort.ratings,
        np.ascontiguousarray(model.factors),
        ridge=_ridge(cohort, settings, strength),
        gram=gram,
        backend=backend,
    )
    return local


def _ridge(cohort: Cohort, settings: ResidualConfig, strength: float) -> Float32Array:
    own_counts = np.maximum(cohort.counts, 1).astype(np.float64)
    return (strength * own_counts**settings.user_ridge_exponent).astype(np.float32)


def residuals(
    cohort: Cohort,
    local: Float32Array,
    model: ItemModel,
    *,
    backend: str = "numpy",
    targets: Float32Array | None = None,
) -> FloatArray:
    """What the board and the user's own model leave unexplained; float64, shape (n_ratings,). Private.

    Arguments as of ``fit_users``.
    """
    left = model.left_of(cohort) if targets is None else targets
    return kernels.residuals_of_rows(cohort.indptr, cohort.items, left, model.vectors, local, backend=backend)


def unit_vectors(
    cohort: Cohort,
    sketch: ItemModel,
    settings: ResidualConfig,
    *,
    backend: str,
    user_ridge: float,
    targets: Float32Array | None = None,
) -> Float32Array:
    """Each user's embedding fitted to factors that nothing was learnt along yet, scaled to norm 1.

    Normalised, since how long such a vector is depends on the data and on nothing that is released. Arguments as of
    ``fit_users``.
    """
    fitted = fit_users(cohort, sketch, settings, backend=backend, user_ridge=user_ridge, targets=targets)
    vectors = fitted[:, 1:]
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)  # squares may overflow float32
    normalised: Float32Array = (vectors / np.maximum(norms, 1e-12)).astype(np.float32)
    return normalised


@dataclass(frozen=True, slots=True, kw_only=True)
class Unclipped:
    """A cohort's part in a round before it is clipped as a whole: ``w_ij r_ij x_j`` over items. Private."""

    cohort: Cohort
    weights: FloatArray
    """float64, shape (n_ratings,); squares of a row sum to at most 1."""
    residuals: FloatArray
    """float64, shape (n_ratings,); clipped at ``residual_bound``."""
    vectors: FloatArray
    """x_j: float64, shape (n_users, width); norm at most ``vector_bound``."""
    residual_bound: float
    vector_bound: float

    @staticmethod
    def of(
        cohort: Cohort,
        weights: FloatArray,
        left: FloatArray,
        vectors: FloatArray,
        *,
        residual_bound: float,
        vector_bound: float,
    ) -> "Unclipped":
        """Bound residuals and vectors one by one, so that they fit the grid."""
        norms = np.maximum(np.linalg.norm(vectors, axis=1), 1e-300)
        return Unclipped(
            cohort=cohort,
            weights=weights,
            residuals=np.clip(left, -residual_bound, residual_bound),
            vectors=vectors * np.minimum(1.0, vector_bound / norms)[:, None],
            residual_bound=residual_bound,
            vector_bound=vector_bound,
        )

    def norms(self, *, backend: str = "numpy") -> FloatArray:
        """``|w_j * r_j| |x_j|`` of each user, float64, shape (n_users,); the same bits by every backend."""
        weighted = kernels.norms_by_row(self.cohort.indptr, self.weights, self.residuals, backend=backend)
        norms: FloatArray = weighted * np.linalg.norm(self.vectors, axis=1)
        return norms

    def normalised(self) -> Contribution:
        """For pair sums: each user's weighted residuals, scaled to norm 1."""
        weighted = self.weights * self.residuals
        rows = self.cohort.user_of_entry()
        squares = np.bincount(rows, weights=np.square(weighted), minlength=self.cohort.n_users)
        unit = weighted * (_INSIDE / np.sqrt(np.maximum(squares, 1e-300)))[rows]
        return Contribution(
            n_items=self.cohort.n_items,
            indptr=self.cohort.indptr,
            items=self.cohort.items,
            responses=clip_responses(unit, 1.0),
        )

    def clipped(self, norms: FloatArray, clip_norm: float) -> Contribution:
        """The integers that are sent: each user's whole contribution has norm at most clip_norm.

        ``f_j = min(1, C / norm_j)`` is shared between vector and residual, sqrt f_j each, so that the same
        integers give ``sum w f r x`` per item and ``sum f x x^T`` over users. Truncation toward zero keeps
        the bound.

        Args:
            norms: as from ``norms``.
            clip_norm: C > 0. Public.
        """
        root = np.sqrt(np.minimum(1.0, _INSIDE * clip_norm / np.maximum(norms, 1e-300)))
        root[self.cohort.counts == 0] = 0.0  # who rated nothing says nothing, also of the moment
        spread = self.residuals * np.repeat(root, self.cohort.counts)
        return Contribution(
            n_items=self.cohort.n_items,
            indptr=self.cohort.indptr,
            items=self.cohort.items,
            weights=quantise_weights(self.weights),
            vectors=clip_vectors(self.vectors * root[:, None], self.vector_bound),
            responses=clip_responses(spread, self.residual_bound),
        )
