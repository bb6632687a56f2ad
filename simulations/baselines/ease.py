"""EASE: an item-item regression in closed form, without privacy; on presence hard to beat by anything of its size.

    B = I - P / diag(P),  P = (X^T X + ridge I)^-1,  scores of a history x:  x B

Items beyond the ``MOST_ITEMS`` most chosen take no part: the inverse of a matrix of all pairs is what it costs.

Reference: H. Steck (2019), Embarrassingly shallow autoencoders for sparse data, arXiv:1905.03375.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.baselines.means import require_catalogue

MOST_ITEMS = 10_000
_USERS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class EaseModel:
    """Weights from items of a history to items. Not private: simulation only."""

    weights: Float32Array
    """B: float32, shape (n_head, n_head), diagonal 0."""
    head: IntArray
    """Items that take part: int64, shape (n_head,), ascending."""
    n_items: int

    def scores(self, history: Cohort) -> Float32Array:
        """Scores x B for each user; float32, shape (n_users, n_items); 0 beyond the head."""
        rows = presence(history)[:, self.head].astype(np.float32)
        found = np.zeros((history.n_users, self.n_items), dtype=np.float32)
        found[:, self.head] = rows @ self.weights
        return found

    def predict(self, history: Cohort, users: IndexArray, items: IndexArray) -> FloatArray:
        """Scores of pairs. As in ``Predictor``."""
        require_catalogue(history, self.n_items)
        found = np.empty(users.size)
        for first in range(0, history.n_users, _USERS_AT_ONCE):
            last = min(first + _USERS_AT_ONCE, history.n_users)
            own = (users >= first) & (users < last)
            found[own] = self.scores(history.rows(first, last))[users[own] - first, items[own]]
        return found

    def recommend(self, history: Cohort, *, k: int) -> IndexArray:
        """Items by score. As in ``Predictor``.

        Raises:
            InputError: k < 1, or the history is over another catalogue.
        """
        require_catalogue(history, self.n_items)
        if k < 1:
            raise InputError(f"k must be >= 1, got {k}")
        best = np.full((history.n_users, k), -1, dtype=np.int32)
        for first in range(0, history.n_users, _USERS_AT_ONCE):
            part = history.rows(first, min(first + _USERS_AT_ONCE, history.n_users))
            scores = self.scores(part)
            scores[part.user_of_entry(), part.items] = -np.inf
            order = np.argsort(-scores, axis=1, kind="stable")[:, :k].astype(np.int32)
            order[np.take_along_axis(scores, order, axis=1) == -np.inf] = -1
            best[first : first + part.n_users, : order.shape[1]] = order
        return best


def fit_ease(train: Cohort, *, ridge: float) -> EaseModel:
    """Fit the weights to presence.

    Args:
        train: implicit feedback; ratings are not looked at. Private.
        ridge: in users; > 0. Public.

    Returns:
        The model. Not private: simulation only.

    Raises:
        InputError: a ridge that is not > 0.
    """
    from scipy.linalg import lapack  # slow to import, and few runs need it

    if not ridge > 0:
        raise InputError(f"ridge must be > 0, got {ridge}")
    counts = train.item_counts()
    head = np.sort(np.argsort(-counts, kind="stable")[:MOST_ITEMS])
    rows = presence(train)[:, head]
    matrix = np.asfortranarray((rows.T @ rows).toarray(), dtype=np.float64)
    matrix[np.diag_indices_from(matrix)] += ridge
    factor, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
    inverse, failed_too = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if failed or failed_too:
        raise InputError(
            f"the pair counts of the items cannot be inverted with ridge {ridge:g}; take a larger one"
        )
    inverse = np.tril(inverse)
    inverse += np.tril(inverse, -1).T
    weights = (-inverse / np.diag(inverse)).astype(np.float32)
    np.fill_diagonal(weights, 0.0)
    return EaseModel(weights=weights, head=head.astype(np.int64), n_items=train.n_items)


def presence(rows: Cohort) -> csr_array:
    """1 where a user has an item; sparse, shape (n_users, n_items). Private."""
    ones = np.ones(rows.n_ratings, dtype=np.float64)
    return csr_array((ones, rows.items, rows.indptr), shape=(rows.n_users, rows.n_items))
