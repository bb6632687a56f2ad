"""The one judge: what a row's vectors are worth on held-out ratings, and how small they made the stated objective.

Rows of users and items without training ratings are set to zero for everybody: libraries leave them at random, or
not a number. Anything else that is not a finite number is an error of that row.
"""

from pathlib import Path

import numpy as np

from fedboard.common import kernels
from fedboard.common.arrays import Float32Array, FloatArray
from peers_parts.jobs import JobFolder, cohort_of

LIST = 20
AT_ONCE = 1 << 20
USERS_AT_ONCE = 8192


class NotFiniteError(Exception):
    """A trained vector holds something else than finite numbers."""


def judged(job: JobFolder, result: Path) -> dict[str, float]:
    """Quality of one row: ``rmse`` or ``recall@20``, and for jobs with an objective its value.

    Args:
        job: with what was held out.
        result: ``result.npz`` of the adapter.

    Raises:
        NotFiniteError: a vector of somebody with training ratings is not finite.
        KeyError: an array is missing.
    """
    with np.load(result) as file:
        arrays = {name: np.asarray(file[name], np.float32) for name in file.files}
    item_counts = np.bincount(job.train.items, minlength=job.train.n_items)
    items = _cleaned(arrays["items"], item_counts, "an item's")
    if job.spec["kind"] == "round":
        return {"rmse": _error(job, _users_of_board(job, items), items)}
    users = _cleaned(arrays["users"], job.train.counts, "a user's")
    if job.spec["kind"] == "explicit":
        return {"rmse": _error(job, users, items), "objective": _squares(job, users, items)}
    return {"recall@20": _recall(job, users, items), "objective": _weighted_squares(job, users, items)}


def _cleaned(vectors: Float32Array, counts: np.ndarray, whose: str) -> Float32Array:
    if vectors.shape[0] < counts.size:  # nobody behind the last one that it saw
        vectors = np.vstack(
            [vectors, np.zeros((counts.size - vectors.shape[0], vectors.shape[1]), np.float32)]
        )
    kept = np.where(counts[:, None] > 0, vectors, np.float32(0.0))
    if not np.isfinite(kept).all():
        raise NotFiniteError(f"{whose} vector holds something else than finite numbers")
    return np.ascontiguousarray(kept, np.float32)


def _scores(users: Float32Array, items: Float32Array, who: np.ndarray, what: np.ndarray) -> FloatArray:
    """<u, v> of pairs, float64, in blocks."""
    found = np.empty(who.size)
    for start in range(0, who.size, AT_ONCE):
        span = slice(start, start + AT_ONCE)
        found[span] = np.einsum("pd,pd->p", users[who[span]], items[what[span]], dtype=np.float64)
    return found


def _error(job: JobFolder, users: Float32Array, items: Float32Array) -> float:
    scores = _scores(users, items, job.test.users, job.test.items) + job.spec["mean"]
    low, high = job.spec["rating_range"]
    return float(np.sqrt(np.mean(np.square(np.clip(scores, low, high) - job.test.values))))


def _users_of_board(job: JobFolder, items: Float32Array) -> Float32Array:
    """What devices do with a board, the same for every row: solve their own vectors."""
    spec, train = job.spec, job.train
    ridge = spec["user_ridge"] * np.maximum(train.counts, 1) ** spec["user_ridge_exponent"]
    return kernels.solve_ridge(
        train.indptr,
        train.items,
        train.ratings - np.float32(spec["mean"]),
        items,
        ridge=ridge.astype(np.float32),
        gram=None,
        backend=kernels.choose_backend(items.shape[1], train.n_ratings),
    )


def _recall(job: JobFolder, users: Float32Array, items: Float32Array) -> float:
    """Recall@20 of known users' held-out items, of those that they have not liked in training."""
    train, test = job.train, job.test
    n_users, n_items = train.n_users, train.n_items
    backend = kernels.choose_backend(users.shape[1], train.n_ratings)
    targets = cohort_of(test.users, test.items, test.values, n_users=n_users, n_items=n_items)
    found = np.empty((n_users, LIST), np.int32)
    for start in range(0, n_users, USERS_AT_ONCE):
        stop = min(start + USERS_AT_ONCE, n_users)
        known = train.rows(start, stop)
        found[start:stop] = kernels.top_k(
            users[start:stop],
            items,
            k=LIST,
            exclude_indptr=known.indptr,
            exclude_items=known.items,
            backend=backend,
        )
    hits = np.zeros(n_users)
    for user in np.flatnonzero(targets.counts):
        own = targets.items[targets.indptr[user] : targets.indptr[user + 1]]
        hits[user] = np.isin(found[user], own).sum() / min(LIST, own.size)
    return float(hits[targets.counts > 0].mean())


def _squares(job: JobFolder, users: Float32Array, items: Float32Array) -> float:
    """sum (y - mean - <u, v>)^2 + ridge (sum n_j |v_j|^2 + sum n_i |u_i|^2)."""
    train, who = job.train, job.train.user_of_entry()
    errors = train.ratings - job.spec["mean"] - _scores(users, items, who, train.items)
    sizes = np.sum(np.bincount(who, minlength=train.n_users) * _norms(users))
    sizes += np.sum(np.bincount(train.items, minlength=train.n_items) * _norms(items))
    return float(np.sum(errors**2) + job.spec["ridge"] * sizes)


def _weighted_squares(job: JobFolder, users: Float32Array, items: Float32Array) -> float:
    """c sum over liked (1 - <u, v>)^2 + sum over all others <u, v>^2 + ridge (sum |v_j|^2 + sum |u_i|^2)."""
    train, spec = job.train, job.spec
    scores = _scores(users, items, train.user_of_entry(), train.items)
    everything = np.sum(_gram(users) * _gram(items))
    liked = np.sum(spec["confidence"] * (1.0 - scores) ** 2 - scores**2)
    return float(everything + liked + spec["ridge"] * (np.sum(_norms(users)) + np.sum(_norms(items))))


def _norms(vectors: Float32Array) -> FloatArray:
    squares: FloatArray = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)
    return squares


def _gram(vectors: Float32Array) -> FloatArray:
    wide = vectors.astype(np.float64)
    gram: FloatArray = wide.T @ wide
    return gram
