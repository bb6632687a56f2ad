"""Nearest items by cosine or inner product, and how many of them two factor matrices agree on."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.errors import InputError
from fedboard.common.kernels import top_k
from fedboard.common.kernels.backends import has_compiler
from fedboard.simulations.evaluation.metrics.metric import listed_in, popularity_buckets

_COMPILED_FROM_ITEMS = 2000
"""Below this catalogue size loading the compiler takes longer than it saves; the result is the same."""


def cosine_neighbours(factors: FloatArray | Float32Array, *, k: int) -> IndexArray:
    """The k items nearest to each item by the cosine of their factor vectors, itself excluded.

    Blocked over rows by the top-k kernel, never n_items^2 at once. Equal cosines go to the lower item number.

    Args:
        factors: shape (n_items, rank). Public: read off the board.
        k: number of neighbours, in 1..n_items - 1.

    Returns:
        int32, shape (n_items, k), nearest first; a row of -1 for an item whose vector is zero.

    Raises:
        InputError: k is out of range.

    Reference: Krichene et al. (2023), appendix D.3, with the cosine in place of the inner product, so that
    popular items (long vectors) do not fill every list.
    """
    norms = np.linalg.norm(factors, axis=1, keepdims=True)
    units = np.divide(factors, norms, out=np.zeros(factors.shape), where=norms > 0)
    return inner_product_neighbours(units, k=k)


def inner_product_neighbours(factors: FloatArray | Float32Array, *, k: int) -> IndexArray:
    """The k items whose factor vectors have the largest inner product with each item's, itself excluded.

    Arguments, result, ties and errors as for ``cosine_neighbours``. Items with long vectors are near to many.

    Reference: Krichene et al. (2023), appendix D.3, tables 3 and 4.
    """
    n_items = factors.shape[0]
    if not 1 <= k < n_items:
        raise InputError(f"k must be in 1..n_items - 1 = 1..{n_items - 1}, got {k}")
    vectors = factors.astype(np.float32)
    neighbours = top_k(
        vectors,
        vectors,
        k=k,
        exclude_indptr=np.arange(n_items + 1, dtype=np.int64),
        exclude_items=np.arange(n_items, dtype=np.int32),
        backend="compiled" if n_items >= _COMPILED_FROM_ITEMS and has_compiler() else "numpy",
    )
    neighbours[~np.any(factors, axis=1)] = -1
    return neighbours


def neighbour_overlap(neighbours: IndexArray, reference: IndexArray) -> FloatArray:
    """Share of each item's neighbours that are among its neighbours in the reference.

    Args:
        neighbours: int32, shape (n_items, k), from ``cosine_neighbours``.
        reference: int32, shape (n_items, k), the same of the reference factors.

    Returns:
        float64, shape (n_items,), in [0, 1].

    Raises:
        InputError: the shapes differ.
    """
    if neighbours.shape != reference.shape:
        raise InputError(f"neighbour lists must have one shape, got {neighbours.shape} and {reference.shape}")
    n_items, k = neighbours.shape
    # An empty place (-1) becomes item number n_items, which no list holds.
    members = np.where(reference < 0, n_items, reference).ravel()
    indptr = np.arange(n_items + 1, dtype=np.int64) * k
    shared = listed_in(neighbours, indptr, members, n_items=n_items + 1)
    return np.asarray(shared.mean(axis=1), dtype=np.float64)


def overlap_by_popularity(
    factors: FloatArray | Float32Array,
    reference_factors: FloatArray | Float32Array,
    counts: IntArray,
    *,
    k: int = 10,
) -> list[float]:
    """Overlap@k of the cosine neighbours with a reference (non-private ALS), mean per popularity bucket.

    Args:
        factors: shape (n_items, rank). Public.
        reference_factors: shape (n_items, any rank). Not private: simulation only.
        counts: training ratings per item, shape (n_items,). Not private: simulation only.
        k: number of neighbours compared; all others where there are fewer.

    Returns:
        Tail to head, in [0, 1]; empty for an only item. Two random matrices reach k / (n_items - 1).

    Raises:
        InputError: the catalogues differ in size.

    Reference: Krichene et al. (2023), figure 10 (k = 20).
    """
    if counts.size < 2:
        return []
    buckets = popularity_buckets(counts)
    nearest = (cosine_neighbours(one, k=min(k, counts.size - 1)) for one in (factors, reference_factors))
    overlap = neighbour_overlap(*nearest)
    means: list[float] = (np.bincount(buckets, weights=overlap) / np.bincount(buckets)).tolist()
    return means
