"""What is computed row by row, as compiled loops: residuals and the best items."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.kernels.compiling import compiled, reading, writing


@compiled()
def _product(
    vectors: Float32Array, item: int | np.int32, own: Float32Array, row: int, place: int
) -> np.float64:
    """One term of the inner product; exact, since float64 holds a product of two float32."""
    return np.float64(vectors[item, place]) * np.float64(own[row, 1 + place])


@compiled(
    *(reading("int64", 1), reading("int32", 1), reading("float32", 1), reading("float32", 2)),
    *(reading("float32", 2), writing("float64", 1)),
)
def fill_residuals(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    vectors: Float32Array,
    own: Float32Array,
    out: FloatArray,
) -> None:
    """Fill ``out``; arguments as in ``residuals_of_rows``.

    Even and odd places are summed apart, and in each eight places the last come first: the order of numpy's einsum
    on x86-64, so that a run gives the same board with either.
    """
    width = vectors.shape[1]
    eights = width // 8 * 8
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            item = items[k]
            even, odd = 0.0, 0.0
            for first in range(0, eights, 8):
                for back in range(4):
                    place = first + 6 - 2 * back
                    even = _product(vectors, item, own, row, place) + even
                    odd = _product(vectors, item, own, row, place + 1) + odd
            for place in range(eights, width, 2):
                even = _product(vectors, item, own, row, place) + even
                if place + 1 < width:
                    odd = _product(vectors, item, own, row, place + 1) + odd
            out[k] = np.float64(targets[k] - own[row, 0]) - (even + odd)


@compiled()
def _insert(score: float, item: int, kept_scores: Float32Array, kept_items: IndexArray) -> None:
    """Put an item into a list that descends by score, behind its equals; the last one drops out."""
    place = kept_scores.size - 1
    while place > 0 and kept_scores[place - 1] < score:
        kept_scores[place] = kept_scores[place - 1]
        kept_items[place] = kept_items[place - 1]
        place -= 1
    kept_scores[place] = score
    kept_items[place] = item


@compiled(writing("float32", 2), reading("int64", 1), reading("int32", 1), writing("int32", 2))
def select(
    scores: Float32Array, exclude_indptr: IntArray, exclude_items: IndexArray, best: IndexArray
) -> None:
    """Fill ``best`` (n, k) from ``scores`` (n, n_items); overwrites the scores of excluded items."""
    kept_scores = np.empty(best.shape[1], np.float32)
    for row in range(scores.shape[0]):
        for k in range(exclude_indptr[row], exclude_indptr[row + 1]):
            scores[row, exclude_items[k]] = -np.inf
        kept_scores[:] = -np.inf
        best[row] = -1
        for item in range(scores.shape[1]):
            if scores[row, item] > kept_scores[-1]:
                _insert(scores[row, item], item, kept_scores, best[row])
