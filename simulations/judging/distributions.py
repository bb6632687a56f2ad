"""Histograms for the report: counts on the board, weights and sizes on the devices."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.tasks.shared.algorithm import RatingTask

_BINS = 40
MOST_USERS = 5000
"""Whose weights are looked at."""


def distributions(
    task: RatingTask, board: Board, train: Iterable[Cohort], *, item_counts: IntArray
) -> dict[str, Any]:
    """Histograms of noisy and exact item counts, item weights and (of some users) entry weights.

    Only the noisy counts and the item weights are public; the rest is not private: simulation only.

    Args:
        task: of the run.
        board: its last.
        train: training rows, a block at a time; the first ``MOST_USERS`` are looked at. Private.
        item_counts: training ratings per item, int64, shape (n_items,). Private.
    """
    weights = np.concatenate([task.weigh(rows, board) for rows in _first(train, MOST_USERS)])
    learnt = np.asarray(board.arrays["learnt"]) != 0
    return {
        "counts": {
            "noisy": _log_histogram(np.asarray(board.arrays["item_counts"])),
            "exact": _log_histogram(np.maximum(item_counts.astype(np.float64), 1.0)),
        },
        "weights": {
            "items": _log_histogram(np.asarray(board.arrays["item_weights"])[learnt]),
            "entries": _log_histogram(weights[weights > 0]),
        },
    }


def _first(train: Iterable[Cohort], n_users: int) -> Iterator[Cohort]:
    for rows in train:
        if n_users <= 0:
            return
        yield rows.rows(0, min(n_users, rows.n_users))
        n_users -= rows.n_users


def _log_histogram(values: FloatArray) -> dict[str, Any]:
    low, high = float(values.min()), float(values.max())
    edges = np.geomspace(low, max(high, low * (1 + 1e-9)), _BINS + 1)
    edges[0], edges[-1] = low, max(high, edges[-2])
    return {"edges": edges.tolist(), "values": np.histogram(values, bins=edges)[0].tolist()}
