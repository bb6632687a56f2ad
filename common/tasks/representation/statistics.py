"""What a user sends: sums over her examples, scaled together so that her whole contribution is bounded.

Both sums of an alternation are scaled by one number per user. They stay the normal equations of her own least
squares problem, so scaling a user down changes her weight, never what she points to.
"""

from typing import Protocol

import numpy as np

from fedboard.common.arrays import BoolArray, FloatArray, IntArray
from fedboard.common.errors import PrivacyError
from fedboard.common.tasks.on_examples.examples import PaddedExamples
from fedboard.common.tasks.representation.config import AlternationTarget, Pairs, RepresentationConfig
from fedboard.common.tasks.representation.local import bounded, fit_vectors, scores_of
from fedboard.common.tasks.representation.losses import LOSSES, LossName
from fedboard.common.tasks.representation.packing import pack, pack_kronecker

GRID = 1 << 24
"""Grid units of norm 1, the bound on every row here."""


class _Labelled(Protocol):
    @property
    def response_bound(self) -> float | None: ...


class StartSettings(_Labelled, Protocol):
    """What the start asks of a configuration. Public."""

    @property
    def loss(self) -> LossName:
        """What is learnt."""
        ...

    @property
    def pairs(self) -> Pairs:
        """Which pairs of a user's examples are taken."""
        ...

    @property
    def initial_clip(self) -> float:
        """Norm up to which a user's part is not scaled."""
        ...


def alternation_rows(
    examples: PaddedExamples, representation: FloatArray, settings: RepresentationConfig, *, step_bound: float
) -> tuple[IntArray, IntArray]:
    """Each user's curvature and gradient with respect to U, each within norm 1.

    With a = vec(x v_j^T), c the loss's curvature and r what is answered:
    ``W_j = s_j sum_i c_i a_i a_i^T``, ``b_j = s_j sum_i r_i a_i / rho``,
    ``s_j = 1 / max(clip_norm, |W_j|, |b_j| / rho)`` with the norms before scaling.

    Args:
        examples: a block of users. Private.
        representation: U on the board, float64, shape (dimension, rank). Public.
        settings: public.
        step_bound: rho of this round. Public.

    Returns:
        int64, shapes (n_users, p q) and (n_users, dimension rank), of norm at most ``GRID``: W_j packed as the
        product of ``sum c x x^T`` and ``v v^T``, and b_j. Private.

    Reference: Jain et al. (2021), Alg. 2 lines 1 and 2, with the user's total bounded instead of each example.
    """
    loss = LOSSES[settings.loss]
    first, second = halves(examples, split=settings.split_examples)
    vectors = bounded(fit_vectors(examples, representation, settings, of=first), settings)
    scores = scores_of(examples, representation, vectors)
    if settings.answer is AlternationTarget.RESPONSE:
        answers = _clipped(examples.labels, settings)
    else:
        answers = loss.residual(scores, examples.labels)
    weights = second * _example_weights(examples, vectors, settings)
    return moment_rows(
        examples,
        vectors,
        curvatures=weights * loss.curvature(scores),
        answers=weights * answers,
        step_bound=step_bound,
        clip_norm=settings.clip_norm,
    )


def moment_rows(
    examples: PaddedExamples,
    vectors: FloatArray,
    *,
    curvatures: FloatArray,
    answers: FloatArray,
    step_bound: float,
    clip_norm: float,
) -> tuple[IntArray, IntArray]:
    """``sum c x x^T (x) v v^T`` and ``sum r x v^T / rho`` of each user, scaled together to norms of at most 1.

    Args:
        examples: private.
        vectors: v_j, float64, shape (n_users, k). Private.
        curvatures: c, float64, shape (n_users, places). Private.
        answers: r, float64, shape (n_users, places). Private.
        step_bound: rho. Public.
        clip_norm: norm up to which nothing is scaled. Public.

    Raises:
        PrivacyError: something is not finite.
    """
    x = examples.features
    gram = (x * curvatures[..., None]).transpose(0, 2, 1) @ x
    correlation = np.einsum("jid,ji->jd", x, answers) / step_bound
    squares = pack(vectors[:, :, None] * vectors[:, None, :])
    lengths = np.linalg.norm(vectors, axis=1)
    norms = np.maximum(
        np.linalg.norm(gram, axis=(1, 2)) * lengths**2, np.linalg.norm(correlation, axis=1) * lengths
    )
    scales = _scales(norms, clip_norm)
    quadratic = pack_kronecker(pack(gram) * scales, squares)
    linear = ((correlation * scales)[:, :, None] * vectors[:, None, :]).reshape(scales.size, -1)
    return quantised(quadratic), quantised(linear)


def initial_rows(examples: PaddedExamples, settings: StartSettings) -> IntArray:
    """Each user's part in the start: ``sum sym(z_a z_b^T)`` over pairs, ``z = clip(y; zeta) x / |x|``, of norm 1.

    Returns:
        int64, shape (n_users, dimension (dimension + 1) / 2), packed, of norm at most ``GRID``. Private.

    Reference: Jain et al. (2021), Alg. 3 line 1, with the user's total bounded instead of each pair.
    """
    norms = np.linalg.norm(examples.features, axis=2, keepdims=True)
    labels = _clipped(LOSSES[settings.loss].centred(examples.labels) * examples.used, settings)
    directed = labels[..., None] * examples.features / np.where(norms > 0, norms, 1.0)
    if settings.pairs is Pairs.ALL:
        whole = directed.sum(axis=1)
        sums = whole[:, :, None] * whole[:, None, :] - directed.transpose(0, 2, 1) @ directed
    else:
        count = directed.shape[1] // 2 * 2
        products = directed[:, 0:count:2].transpose(0, 2, 1) @ directed[:, 1:count:2]
        sums = 0.5 * (products + products.transpose(0, 2, 1))
    scales = _scales(np.linalg.norm(sums, axis=(1, 2)), settings.initial_clip)
    return quantised(pack(sums) * scales)


def quantised(rows: FloatArray) -> IntArray:
    """Rows of norm at most 1 on the grid, toward zero, so that norms do not grow. Overwrites ``rows``.

    Raises:
        PrivacyError: something is not finite.
    """
    if not np.isfinite(rows).all():
        raise PrivacyError("a contribution must be finite; NaN or infinity was refused")
    rows *= GRID * (1.0 - 1e-12)  # what rounding in the norms may have left above 1
    return rows.astype(np.int64)  # the cast truncates


def _clipped(labels: FloatArray, settings: _Labelled) -> FloatArray:
    bound = settings.response_bound
    return labels if bound is None else np.clip(labels, -bound, bound)


def _scales(norms: FloatArray, clip_norm: float) -> FloatArray:
    """float64, shape (n_users, 1)."""
    return 1.0 / np.maximum(norms, clip_norm)[:, None]


def halves(examples: PaddedExamples, *, split: bool) -> tuple[BoolArray, FloatArray]:
    """Which examples fit v_j and which answer: all and all, or each user's first half and the rest."""
    if not split:
        return examples.used, examples.used.astype(np.float64)
    counts = examples.used.sum(axis=1)
    early = np.arange(examples.used.shape[1])[None, :] < (counts // 2)[:, None]
    return early, (examples.used & ~early).astype(np.float64)


def _example_weights(
    examples: PaddedExamples, vectors: FloatArray, settings: RepresentationConfig
) -> FloatArray:
    """``min(1, eta / |x v^T|)^2``: a bound on the example that leaves its equation as it is."""
    if settings.example_bound is None:
        return np.ones(examples.used.shape)
    lengths = np.linalg.norm(examples.features, axis=2) * np.linalg.norm(vectors, axis=1)[:, None]
    shrunk: FloatArray = settings.example_bound / np.maximum(lengths, settings.example_bound)
    return shrunk**2
