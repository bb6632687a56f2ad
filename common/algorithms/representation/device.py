"""The user's side: her own vector on the shared representation, and what she sends.

She sends sums over her examples, scaled together so that her whole contribution is bounded; symmetric matrices as
rows of numbers that keep inner products.

Both sums of an alternation are scaled by one number per user. They stay the normal equations of her own least
squares problem, so scaling a user down changes her weight, never what she points to.
"""

import numpy as np

from fedboard.common.algorithms.representation.config import (
    LOSSES,
    AlternationTarget,
    Pairs,
    PersonalSettings,
    RepresentationConfig,
)
from fedboard.common.algorithms.supervised.examples import PaddedExamples
from fedboard.common.arrays import BoolArray, FloatArray, IntArray
from fedboard.common.errors import PrivacyError

_ROOT_TWO = np.sqrt(2.0)


def packed_width(size: int) -> int:
    """Numbers of a packed symmetric matrix of that size."""
    return size * (size + 1) // 2


def pack(matrices: FloatArray) -> FloatArray:
    """Upper triangles, row-major, with off-diagonals times sqrt 2: the norm of a row is the Frobenius norm.

    Args:
        matrices: float64, shape (..., size, size), symmetric.

    Returns:
        float64, shape (..., size (size + 1) / 2).
    """
    rows, columns = np.triu_indices(matrices.shape[-1])
    return matrices[..., rows, columns] * np.where(rows == columns, 1.0, _ROOT_TWO)


def unpack(packed: FloatArray, size: int) -> FloatArray:
    """The inverse of ``pack``; float64, shape (..., size, size)."""
    rows, columns = np.triu_indices(size)
    values = packed / np.where(rows == columns, 1.0, _ROOT_TWO)
    matrices = np.empty((*packed.shape[:-1], size, size))
    matrices[..., rows, columns] = values
    matrices[..., columns, rows] = values
    return matrices


def pack_kronecker(left: FloatArray, right: FloatArray) -> FloatArray:
    """``G (x) H`` of symmetric G and H by the packed forms of both: fewer numbers than the symmetric product has.

    Args:
        left: packed G, float64, shape (n, p).
        right: packed H, float64, shape (n, q).

    Returns:
        float64, shape (n, p q); its norm is ``|G| |H|``, that of the product.
    """
    return (left[:, :, None] * right[:, None, :]).reshape(left.shape[0], -1)


def unpack_kronecker(packed: FloatArray, left_size: int, right_size: int) -> FloatArray:
    """A sum of products ``G (x) H`` as a matrix; float64, shape (left_size right_size,) * 2.

    Row ``a right_size + p`` stands for entry (a, p).
    """
    by_left = packed.reshape(packed_width(left_size), packed_width(right_size))
    right = unpack(by_left, right_size)
    both = unpack(np.moveaxis(right, 0, -1), left_size)  # right, right, left, left
    size = left_size * right_size
    return both.transpose(2, 0, 3, 1).reshape(size, size)


_LONGEST_STEP = 5.0
"""Of Newton's method in score units of v: keeps separable logistic data from running away."""


def fit_vectors(
    examples: PaddedExamples,
    representation: FloatArray,
    settings: PersonalSettings,
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


def bounded(vectors: FloatArray, settings: PersonalSettings) -> FloatArray:
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


GRID = 1 << 24
"""Grid units of norm 1, the bound on every row here."""


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


def initial_rows(examples: PaddedExamples, settings: PersonalSettings, *, clip_norm: float) -> IntArray:
    """Each user's part in the start: ``sum sym(z_a z_b^T)`` over pairs, ``z = clip(y; zeta) x / |x|``, of norm 1.

    Args:
        examples: private.
        settings: public.
        clip_norm: norm up to which a user's part is not scaled. Public.

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
    scales = _scales(np.linalg.norm(sums, axis=(1, 2)), clip_norm)
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


def _clipped(labels: FloatArray, settings: PersonalSettings) -> FloatArray:
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
