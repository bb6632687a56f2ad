"""The user's side: her own vector on the shared representation."""

from typing import Protocol

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray
from fedboard.common.tasks.on_examples.examples import PaddedExamples
from fedboard.common.tasks.representation.losses import LOSSES, LossName

_LONGEST_STEP = 5.0
"""Of Newton's method in score units of v: keeps separable logistic data from running away."""


class VectorSettings(Protocol):
    """What a user's own vector asks of a configuration. Public."""

    @property
    def loss(self) -> LossName:
        """What is minimised."""
        ...

    @property
    def user_ridge(self) -> float:
        """Strength of the ridge on v_j."""
        ...

    @property
    def vector_bound(self) -> float | None:
        """Norm to which vectors are shortened for what is sent; None for no bound."""
        ...


def fit_vectors(
    examples: PaddedExamples,
    representation: FloatArray,
    settings: VectorSettings,
    *,
    of: BoolArray | None = None,
) -> FloatArray:
    """Each user's own vector: ``argmin_v sum_i l(<U^T x_i, v>, y_i) + ridge |v|^2 / 2``.

    Args:
        examples: private.
        representation: U, float64, shape (dimension, rank). Public.
        settings: loss and ridge.
        of: bool, shape (n_users, places): the examples that count; None for all.

    Returns:
        float64, shape (n_users, rank). Private.

    Reference: Jain et al. (2021), Alg. 1 line 5.
    """
    loss = LOSSES[settings.loss]
    counted = examples.used if of is None else examples.used & of
    inner = examples.features @ representation
    vectors = np.zeros((inner.shape[0], inner.shape[2]))
    ridge = settings.user_ridge * np.eye(inner.shape[2])
    for _ in range(loss.newton_steps):
        scores = np.einsum("jik,jk->ji", inner, vectors)
        weighted = inner * (loss.curvature(scores) * counted)[..., None]
        hessian = weighted.transpose(0, 2, 1) @ inner + ridge
        gradient = np.einsum("jik,ji->jk", inner, loss.residual(scores, examples.labels) * counted)
        gradient -= settings.user_ridge * vectors
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        vectors += step if loss.newton_steps == 1 else _shortened(step, _LONGEST_STEP)
    return vectors


def bounded(vectors: FloatArray, settings: VectorSettings) -> FloatArray:
    """The vectors as they enter what is sent: no longer than ``vector_bound``."""
    return vectors if settings.vector_bound is None else _shortened(vectors, settings.vector_bound)


def scores_of(examples: PaddedExamples, representation: FloatArray, vectors: FloatArray) -> FloatArray:
    """``<U^T x_ij, v_j>`` for each place, float64, shape (n_users, places). Private."""
    scores: FloatArray = np.einsum("jik,jk->ji", examples.features @ representation, vectors)
    return scores


def _shortened(vectors: FloatArray, bound: float) -> FloatArray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    shortened: FloatArray = vectors * np.minimum(1.0, bound / np.maximum(norms, bound))
    return shortened
