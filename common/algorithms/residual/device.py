"""The device's part of residual alternating minimisation: own model, clipped contribution, evidence for ridges.

The ridge on v_j is chosen by ratings not yet seen. No ridge is right everywhere: with few ratings a user a weak one
makes own models learn their own noise, with many a strong one throws the factors away. So every user tells, for
each candidate, how much better than without factors their ratings are predicted when each is left out in turn; the
sums are released, and the best candidate is used from then on. Where none is better than nothing, the factors are
dropped, and what follows improves the biases alone.

One user's row is ``sqrt(n_j) (mean squared error with a candidate - that without factors)``, in squared deviations
of a rating, scaled to norm at most 1: that is the sensitivity.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedboard.common import kernels
from fedboard.common.algorithms.residual.config import ResidualConfig, StageKind, stage_of
from fedboard.common.algorithms.residual.releases import RIDGES, ROW_ONE
from fedboard.common.algorithms.shared.preparation import (
    answer,
    spread_of,
)
from fedboard.common.algorithms.shared.regression import (
    Regression,
    content_of,
    fit_biased_vectors,
    fit_vectors,
    user_ridges,
)
from fedboard.common.arrays import Float32Array, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution
from fedboard.common.contribution_bounding.clipping import (
    clip_responses,
    clip_vectors,
    quantise_weights,
)

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
        user_ridge: its strength on v, squared stars; see ``user_ridge``.
        targets: what ``model.left_of`` gave, if it is at hand. Private.

    Returns:
        float32, shape (n_users, 1 + rank): (c_j, v_j), and h_j behind them where there is content; c_j = 0 for
        implicit feedback. Private, unclipped.
    """
    if not settings.has_biases:
        local = np.zeros((cohort.n_users, 1 + model.factors.shape[1]), dtype=np.float32)
        local[:, 1:] = fit_vectors(
            cohort,
            cohort.ratings,
            model.factors,
            ridge=user_ridges(cohort, user_ridge, settings.user_ridge_exponent),
            unobserved_weight=settings.unobserved_weight,
            backend=backend,
        )
        return local
    return fit_biased_vectors(
        cohort,
        model.left_of(cohort) if targets is None else targets,
        model.factors,
        strength=user_ridge,
        bias_strength=settings.user_bias_ridge,
        exponent=settings.user_ridge_exponent,
        content=model.content,
        backend=backend,
    )


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
        return answer(
            self.cohort,
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
        return answer(
            self.cohort,
            weights=quantise_weights(self.weights),
            vectors=clip_vectors(self.vectors * root[:, None], self.vector_bound),
            responses=clip_responses(spread, self.residual_bound),
        )


_OLDER = 0.6
"""What the evidence of the round before counts in the next."""


def evidence_rows(
    cohort: Cohort,
    targets: Float32Array,
    factors: Float32Array,
    *,
    spread: float,
    exponent: float,
    bias_ridge: float,
    backend: str,
) -> IntArray:
    """Each user's part in the evidence; int64, shape (n_users, 7), norm of a row <= ``ROW_ONE``. Private.

    Args:
        cohort: the users. Private.
        targets: ratings less mean and item biases: float32, shape (n_ratings,). Private.
        factors: float32, shape (n_items, rank).
        spread: deviation of a rating, stars.
        exponent: ridges grow with a user's number of ratings to this power.
        bias_ridge: strength of the ridge on her own bias.
        backend: which kernels compute.
    """
    if not factors.any():  # every candidate is what no factors are
        return np.zeros((cohort.n_users, RIDGES.size), dtype=np.int64)
    own = np.maximum(cohort.counts, 1).astype(np.float64)
    gains = kernels.left_out_errors(
        cohort.indptr,
        cohort.items,
        targets,
        factors,
        ridges=RIDGES * spread**2,
        growth=own**exponent,
        bias_ridge=bias_ridge,
        backend=backend,
    )
    gains *= (np.sqrt(own) / spread**2)[:, None]
    # Absurd factors round a leverage to 1: nothing is known then, and an error would tell who rated such an item.
    gains[~np.isfinite(gains).all(axis=1)] = 0.0
    norms = np.linalg.norm(gains, axis=1, keepdims=True)
    gains *= _INSIDE * ROW_ONE / np.maximum(norms, 1.0)
    return np.trunc(gains).astype(np.int64)


def weighed_evidence(before: FloatArray | None, released: FloatArray, stddev: float) -> FloatArray:
    """Evidence so far: rounds weighted by their precision, older ones less; float64, shape (7,).

    Args:
        before: the same after the round before; None in the first.
        released: sums over users, float64, shape (7,).
        stddev: of the noise in each.
    """
    new: FloatArray = released / max(stddev, 1e-12) ** 2
    return new if before is None else _OLDER * before + new


def chosen_ridge(evidence: FloatArray) -> float | None:
    """The best candidate, in squared deviations of a rating; None where no factors are better than any."""
    best = int(np.argmin(evidence))
    return float(RIDGES[best]) if evidence[best] < 0.0 else None


def user_ridge(board: Board, settings: ResidualConfig) -> float:
    """lambda_v with this board, squared stars: as evidence says, or as configured where there is none."""
    done = stage_of(board.version, settings).kind is StageKind.DONE
    if done and settings.final_user_ridge is not None:
        return settings.final_user_ridge * _unit(board, settings)
    if settings.has_biases and "user_ridge" in board.arrays:  # whose rule binds boards of ratings alone
        return float(board.arrays["user_ridge"][0])
    return settings.user_ridge * _unit(board, settings)


def unit_of(board: Board, settings: ResidualConfig) -> float:
    """The unit of residuals in contributions: the released deviation of a rating, stars; 1 for presence.

    Devices divide by it, so that what a round asks does not depend on what was released.
    """
    return spread_of(board) if settings.has_biases else 1.0


def _unit(board: Board, settings: ResidualConfig) -> float:
    """Of a ridge: that of residuals squared; 1 where none is released yet."""
    return unit_of(board, settings) ** 2 if "spread" in board.arrays else 1.0


def after_evidence(
    board: Board, released: FloatArray, stddev: float, settings: ResidualConfig
) -> tuple[dict[str, Any], bool]:
    """Board arrays that follow from the evidence of a round, and whether factors are worth anything.

    Args:
        board: of before the round.
        released: sums over users, float64, shape (7,).
        stddev: of the noise in each.
        settings: public.
    """
    evidence = weighed_evidence(board.arrays.get("ridge_evidence"), released, stddev)
    chosen = chosen_ridge(evidence)
    ridge = user_ridge(board, settings) if chosen is None else chosen * _unit(board, settings)
    return {"ridge_evidence": evidence, "user_ridge": np.array([ridge])}, chosen is not None


def regression(settings: ResidualConfig, own: Cohort, board: Board) -> Regression:
    """Ratings around the mean and the item biases on a constant, the item factors, and content where there is any.

    Args:
        settings: public.
        own: her ratings. Private.
        board: public; of version 1 or later.
    """
    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    strength = user_ridge(board, settings)
    ridge = strength * max(own.n_ratings, 1) ** settings.user_ridge_exponent
    if not settings.has_biases:
        gram = settings.unobserved_weight * (factors.T @ factors)
        return Regression(vectors=factors, base=np.zeros(factors.shape[0]), ridge=ridge, gram=gram)
    constant = np.full((factors.shape[0], 1), np.sqrt(strength / settings.user_bias_ridge))
    biases = np.asarray(board.arrays["item_biases"], dtype=np.float64)
    base, vectors = float(board.arrays["mean"][0]) + biases, np.hstack([constant, factors])
    content = content_of(board)
    if content is not None:  # scaled, so that one ridge serves for all
        _, chosen = kernels.solve_own_models(
            own.indptr,
            own.items,
            (own.ratings - base[own.items]).astype(np.float32),
            vectors.astype(np.float32),
            content,
            ridge=np.array([ridge], dtype=np.float32),
            backend="numpy",
        )
        vectors = np.hstack([vectors, np.sqrt(ridge / chosen[0]) * content])
    return Regression(vectors=vectors, base=base, ridge=ridge, gram=0.0)
