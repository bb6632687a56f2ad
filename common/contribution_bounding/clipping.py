"""Clipping onto the integer grid: what a client sends, and the check that every row keeps its bound."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray, IndexArray, IntArray, ShortArray, ascends
from fedboard.common.errors import InputError, PrivacyError

VECTOR_BOUND = 1 << 12
"""Largest L2 norm of a user's vector, grid units; stands for the clipping norm."""
RESPONSE_BOUND = 1 << 12
"""Largest response, grid units; stands for the label bound."""
WEIGHT_ONE = 1 << 14
"""A weight of 1, and the largest L2 norm of a user's weights, grid units."""
QUADRATIC_BOUND = WEIGHT_ONE * VECTOR_BOUND**2
"""L2 bound of one user's stack of ``w v v^T``, grid units (Frobenius): 2^38."""
LINEAR_BOUND = WEIGHT_ONE * VECTOR_BOUND * RESPONSE_BOUND
"""L2 bound of one user's stack of ``w r v``, grid units: 2^38."""

_SPLIT = 26  # bits of the low half where a product may exceed 64 bits
_SHIFTED = (1 << _SPLIT) - 1


def clip_vectors(vectors: NDArray[np.floating], clip_norm: float) -> ShortArray:
    """Scale each row to L2 norm at most ``clip_norm`` and put it on the grid, toward zero.

    Guarantee: in exact integer arithmetic each row has squared norm at most ``VECTOR_BOUND ** 2``.

    Args:
        vectors: floating, shape (n_users, rank). Private.
        clip_norm: Gamma > 0, in the units of ``vectors``; ``VECTOR_BOUND`` grid units. Public.

    Returns:
        int16, shape (n_users, rank). Private.

    Raises:
        PrivacyError: a row is not finite; which one is not said.
    """
    scale = VECTOR_BOUND / _positive(clip_norm=clip_norm)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.asarray(vectors, dtype=np.float64) * scale
        norms = np.sqrt(np.einsum("nd,nd->n", scaled, scaled))
    _require_finite(norms)
    scaled *= (VECTOR_BOUND / np.maximum(norms, VECTOR_BOUND))[:, None]
    clipped = np.trunc(scaled).astype(np.int16)
    if (_squared_norms(clipped) > VECTOR_BOUND**2).any():
        raise PrivacyError("a clipped vector exceeds its bound on the grid")
    return clipped


def clip_responses(responses: NDArray[np.floating], bound: float) -> ShortArray:
    """Clip responses to [-bound, bound] and put them on the grid, toward zero.

    Args:
        responses: floating, shape (n_ratings,). Private.
        bound: Gamma_y > 0; ``RESPONSE_BOUND`` grid units. Public.

    Returns:
        int16, shape (n_ratings,), each in ``-RESPONSE_BOUND..RESPONSE_BOUND``. Private.

    Raises:
        PrivacyError: a response is not finite.
    """
    least, most = _require_finite(responses)
    limit = _positive(bound=bound)
    within = -limit <= least and most <= limit  # then there is nothing to clip
    inside = responses if within else np.clip(responses, -limit, limit, dtype=np.float64)
    values = np.divide(inside, limit, dtype=np.float64)
    values *= RESPONSE_BOUND
    short: ShortArray = values.astype(np.int16)  # the cast truncates
    return short


def quantise_weights(weights: NDArray[np.floating]) -> ShortArray:
    """Put weights in [0, 1] on the grid, toward zero, so that norms do not grow.

    Args:
        weights: floating, shape (n_ratings,); squares add to at most 1 for each user. Private.

    Returns:
        int16, shape (n_ratings,), ``WEIGHT_ONE`` for 1. Private.

    Raises:
        PrivacyError: a weight is not finite or not in [0, 1].
    """
    least, most = _require_finite(weights)
    if not 0.0 <= least <= most <= 1.0 + 1e-9:
        raise PrivacyError("weights must lie in [0, 1]")
    values = np.multiply(weights, float(WEIGHT_ONE), dtype=np.float64)
    if most > 1.0:
        np.minimum(values, WEIGHT_ONE, out=values)
    short: ShortArray = values.astype(np.int16)  # the cast truncates
    return short


def check_rows(
    indptr: IntArray,
    items: IndexArray,
    *,
    n_items: int,
    vectors: ShortArray | None = None,
    weights: ShortArray | None = None,
    responses: ShortArray | None = None,
    joint_bound: int | None = None,
    unit_responses: bool = False,
) -> BoolArray:
    """Find the rows that break a bound, in exact integer arithmetic.

    The client calls it before sending and the server before summing; the server drops the rows it finds, so
    one user moves a sum by at most the booked bound whatever she sends. Checked for each row:
    ``|v|^2 <= 2^24``; ``w >= 0`` and ``sum w^2 <= 2^28``; ``|r| <= 2^12``; with a joint bound C also
    ``sum (w r)^2 |v|^2 <= C^2``, with ``unit_responses`` also ``sum r^2 <= 2^24``; items ascending, unique and
    in the catalogue (an item twice would add up).

    Args:
        indptr: int64, shape (n_users + 1,), from 0 to n_ratings.
        items: int32, shape (n_ratings,).
        n_items: size of the catalogue. Public.
        vectors: int16, shape (n_users, rank), or None where the release has none.
        weights: int16, shape (n_ratings,), or None.
        responses: int16, shape (n_ratings,), or None.
        unit_responses: whether a user's responses are bounded together, as for pair sums. Public.
        joint_bound: C in grid units, at most 2^38; needs vectors, weights and responses. Public.

    Returns:
        bool, shape (n_users,): True for a row that must be dropped.

    Raises:
        InputError: the arrays do not fit together or have another dtype, so no row can be told.
    """
    require_shapes(indptr, items, vectors, {"weights": weights, "responses": responses})
    joint = None if joint_bound is None else _squared(joint_bound)
    if joint is not None and (vectors is None or weights is None or responses is None):
        raise InputError("a joint bound needs vectors, weights and responses")
    entries = _broken_items(indptr, items, n_items)
    if weights is not None:
        entries |= weights < 0
    if responses is not None:
        entries |= responses > RESPONSE_BOUND
        entries |= responses < -RESPONSE_BOUND
    broken = _rows_of(indptr, entries)
    norms = np.zeros(broken.size, dtype=np.int64) if vectors is None else _squared_norms(vectors)
    broken |= norms > VECTOR_BOUND**2
    if weights is not None:
        broken |= _row_sums(indptr, np.square(weights, dtype=np.int64)) > WEIGHT_ONE**2
    if unit_responses and responses is not None:
        broken |= _row_sums(indptr, np.square(responses, dtype=np.int64)) > RESPONSE_BOUND**2
    if joint is not None and weights is not None and responses is not None:
        parts = np.multiply(weights, responses, dtype=np.int32)  # at most 2^30, whatever was sent
        sums = _row_sums(indptr, np.square(parts, dtype=np.int64))
        products = np.where(broken, 0, sums)  # < 2^53 where not broken
        norms = np.where(broken, 0, norms)  # < 2^25
        low = (products & _SHIFTED) * norms
        high = (products >> _SPLIT) * norms + (low >> _SPLIT)
        low &= _SHIFTED
        broken |= (high > joint[0]) | ((high == joint[0]) & (low > joint[1]))
    return broken


def _squared(joint_bound: int) -> tuple[int, int]:
    """High and low part of the squared joint bound: it, and what is held against it, may need 76 bits."""
    if not 0 < joint_bound <= LINEAR_BOUND:
        raise InputError(f"the joint bound must be in 1..{LINEAR_BOUND} grid units, got {joint_bound}")
    return joint_bound**2 >> _SPLIT, joint_bound**2 & _SHIFTED


def _broken_items(indptr: IntArray, items: IndexArray, n_items: int) -> BoolArray:
    """Mark entries whose item is not in the catalogue or not above the one before it in its row."""
    broken: BoolArray = items.view(np.uint32) >= n_items  # negative numbers are large ones here
    not_ascending = items[1:] <= items[:-1]
    starts = indptr[1:-1]
    not_ascending[starts[(starts > 0) & (starts < items.size)] - 1] = False
    broken[1:] |= not_ascending
    return broken


def _rows_of(indptr: IntArray, marked: BoolArray) -> BoolArray:
    """Mark the rows that hold a marked entry."""
    rows = np.zeros(indptr.size - 1, dtype=np.bool_)
    rows[np.searchsorted(indptr, np.flatnonzero(marked), side="right") - 1] = True
    return rows


def _row_sums(indptr: IntArray, values: IntArray) -> IntArray:
    """Sums over rows, int64, exact wherever the row's own sum fits."""
    sums = np.zeros(indptr.size - 1, dtype=np.int64)
    filled = np.flatnonzero(indptr[1:] > indptr[:-1])
    if filled.size:  # from the start of each row that has entries to that of the next
        sums[filled] = np.add.reduceat(values, indptr[filled])
    return sums


def _squared_norms(vectors: ShortArray) -> IntArray:
    wide = vectors.astype(np.int64)
    norms: IntArray = np.einsum("nd,nd->n", wide, wide)
    return norms


def require_shapes(
    indptr: IntArray, items: IndexArray, vectors: ShortArray | None, entries: Mapping[str, ShortArray | None]
) -> None:
    """Check that the arrays of rows fit together; see ``check_rows`` for what each is.

    Args:
        indptr: where rows begin.
        items: of the entries.
        vectors: of the rows.
        entries: by name, one number per entry.

    Raises:
        InputError: they do not.
    """
    rows_fit = indptr.ndim == 1 and indptr.size >= 1 and indptr.dtype == np.int64 and items.ndim == 1
    if not rows_fit or indptr[0] != 0 or indptr[-1] != items.size or not ascends(indptr):
        raise InputError("indptr must be int64, ascending, and run from 0 to the number of items")
    if items.dtype != np.int32:
        raise InputError("items must be int32")
    if vectors is not None and (
        vectors.dtype != np.int16 or vectors.ndim != 2 or len(vectors) != indptr.size - 1
    ):
        raise InputError("vectors must be int16 of shape (n_users, rank)")
    for name, values in entries.items():
        if values is not None and (values.dtype != np.int16 or values.shape != items.shape):
            raise InputError(f"{name} must be int16 with one number per item")


def _require_finite(values: NDArray[np.floating]) -> tuple[float, float]:
    """The least and the largest, 0 of none. NaN shows in both; no array as long as the values is made."""
    if not values.size:
        return 0.0, 0.0
    ends = float(values.min()), float(values.max())
    if not np.isfinite(ends).all():
        raise PrivacyError("numbers that leave the device must be finite; NaN or infinity was refused")
    return ends


def _positive(**bounds: float) -> float:
    ((name, value),) = bounds.items()
    if not 0 < value < np.inf:
        raise PrivacyError(f"{name} must be a finite number > 0, got {value}")
    return value
