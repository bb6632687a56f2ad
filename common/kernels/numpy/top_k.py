"""The k best by a full stable sort."""

import numpy as np

from fedboard.common.arrays import Float32Array, IndexArray, IntArray


def select(
    scores: Float32Array, exclude_indptr: IntArray, exclude_items: IndexArray, best: IndexArray
) -> None:
    """Fill ``best`` (n, k) from ``scores`` (n, n_items); overwrites the scores of excluded items."""
    rows = np.repeat(np.arange(scores.shape[0]), np.diff(exclude_indptr))
    scores[rows, exclude_items[exclude_indptr[0] : exclude_indptr[-1]]] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")[:, : best.shape[1]]
    candidate = np.take_along_axis(scores, order, axis=1) > -np.inf
    best[:] = -1
    best[:, : order.shape[1]] = np.where(candidate, order, -1)
