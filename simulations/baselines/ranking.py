"""Recommending in one order that is the same for all users."""

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.baselines.predictor import require_catalogue


def recommend_alike(scores: FloatArray, history: Cohort, *, k: int) -> IndexArray:
    """The k items of highest score that are not in the user's own history; ties to the lower item number.

    Args:
        scores: float64, shape (n_items,), the same for all users.
        history: items never to recommend, one row a user. Private.
        k: items per user, >= 1.

    Returns:
        int32, shape (n_users, k), best first; -1 where a user has fewer than k candidates.

    Raises:
        InputError: k < 1, or the history is over another catalogue.
    """
    require_catalogue(history, scores.size)
    if k < 1:
        raise InputError(f"k must be >= 1, got {k}")
    order = np.argsort(-scores, kind="stable").astype(np.int32)
    best = np.full((history.n_users, k), -1, dtype=np.int32)
    known = np.zeros(scores.size, dtype=np.bool_)
    for row, (start, stop) in enumerate(zip(history.indptr[:-1], history.indptr[1:], strict=True)):
        own = history.items[start:stop]
        known[own] = True
        # Among the first k + |own| items at most |own| are known, so at least k (or all there are) remain.
        candidates = order[: k + own.size]
        unknown = candidates[~known[candidates]][:k]
        best[row, : unknown.size] = unknown
        known[own] = False
    return best
