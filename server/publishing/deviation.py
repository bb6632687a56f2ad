"""How far a rounded board is from the exact one, measured on made-up users: no rating of anybody is looked at."""

import numpy as np

from fedboard.common import kernels
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.common.board import Board
from fedboard.common.boards.manifest import Deviation
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.common.tasks.registry import rebuild_task
from fedboard.common.tasks.shared.algorithm import RatingTask
from fedboard.common.tasks.shared.ratings_config import Feedback

_USERS = 64
_RATINGS = 20
_PAIRS = 100
_TOP = 20
_FIRST_LEARNT_VERSION = 2


def deviation_of(exact: Board, approximate: Board) -> Deviation:
    """Measure the deviation.

    Made-up users rate 20 learnt items each, evenly on the range of ratings; each board solves their local models
    and predicts 100 items for each.

    Args:
        exact: as published.
        approximate: the same board after rounding.
    """
    absolute, relative = _of_factors(exact, approximate)
    if exact.version < _FIRST_LEARNT_VERSION or np.count_nonzero(exact.arrays.get("learnt", ())) < _RATINGS:
        return Deviation(factors_absolute=absolute, factors_relative=relative)
    try:
        task = rebuild_task(exact)
    except InputError:  # a task of somebody else's: its predictions are not known here
        return Deviation(factors_absolute=absolute, factors_relative=relative)
    generator = np.random.default_rng(0)
    users = _made_up_users(task, exact, generator)
    rows = np.repeat(np.arange(_USERS, dtype=np.int32), _PAIRS)
    items = generator.integers(exact.catalogue.n_items, size=rows.size).astype(np.int32)
    predictions, best = [], []
    for board in (exact, approximate):
        local = task.fit_local(users, board)
        predictions.append(task.predict(local, board, rows, items))
        best.append(_best(task, users, local, board))
    difference = predictions[1] - predictions[0]
    shared = [np.intersect1d(first, second).size / _TOP for first, second in zip(*best, strict=True)]
    return Deviation(
        factors_absolute=absolute,
        factors_relative=relative,
        predictions_largest=float(np.abs(difference).max()),
        predictions_rms=float(np.sqrt(np.mean(difference**2))),
        top20_overlap=float(np.mean(shared)),
    )


def _of_factors(exact: Board, approximate: Board) -> tuple[float, float]:
    absolute = relative = 0.0
    for name, values in exact.arrays.items():
        if values.ndim != 2 or values.dtype.kind != "f" or values.size == 0:
            continue
        right = values.astype(np.float64)
        change = approximate.arrays[name].astype(np.float64) - right
        lengths = np.linalg.norm(right, axis=1)
        known = lengths > 0
        absolute = max(absolute, float(np.abs(change).max()))
        relative = max(
            relative, float((np.linalg.norm(change, axis=1)[known] / lengths[known]).max(initial=0))
        )
    return absolute, relative


def _made_up_users(task: RatingTask, board: Board, generator: np.random.Generator) -> Cohort:
    learnt = np.flatnonzero(board.arrays["learnt"])
    items = [np.sort(generator.choice(learnt, _RATINGS, replace=False)) for _ in range(_USERS)]
    settings = task.settings
    if settings.shared.feedback is Feedback.EXPLICIT:
        ratings: FloatArray = generator.uniform(
            settings.shared.rating_low, settings.shared.rating_high, size=_USERS * _RATINGS
        )
    else:
        ratings = np.ones(_USERS * _RATINGS)
    return Cohort(
        indptr=np.arange(_USERS + 1, dtype=np.int64) * _RATINGS,
        items=np.concatenate(items).astype(np.int32),
        ratings=ratings.astype(np.float32),
        n_items=board.catalogue.n_items,
    )


def _best(task: RatingTask, users: Cohort, local: Float32Array, board: Board) -> IndexArray:
    """Item numbers, shape (n_users, 20): the best learnt items, those that she has rated too."""
    factors, items = task.ranking_factors(local, board)
    unknown = np.flatnonzero(np.asarray(board.arrays["learnt"]) == 0).astype(np.int32)
    return kernels.top_k(
        factors,
        items,
        k=min(_TOP, board.catalogue.n_items),
        exclude_indptr=np.arange(users.n_users + 1, dtype=np.int64) * unknown.size,
        exclude_items=np.tile(unknown, users.n_users),
        backend=task.backend,
    )
