"""The k best by one pass that keeps a short sorted list."""

import numpy as np

from fedboard.common.arrays import Float32Array, IndexArray, IntArray
from fedboard.common.kernels.compiling import compiled, reading, writing


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
