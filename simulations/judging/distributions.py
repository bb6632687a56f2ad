"""Histograms for the report: counts on the board, weights and sizes on the devices."""

from typing import Any

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.tasks.shared.algorithm import RatingTask
from fedboard.simulations.judging.evaluation import item_counts

_BINS = 40
_USERS = 5000


def distributions(task: RatingTask, board: Board, train: Cohort) -> dict[str, Any]:
    """Histograms of noisy and exact item counts, item weights and (of some users) entry weights.

    Only the noisy counts and the item weights are public; the rest is not private: simulation only.
    """
    weights = task.weigh(train.rows(0, min(_USERS, train.n_users)), board)
    learnt = np.asarray(board.arrays["learnt"]) != 0
    return {
        "counts": {
            "noisy": _log_histogram(np.asarray(board.arrays["item_counts"])),
            "exact": _log_histogram(np.maximum(item_counts(train).astype(np.float64), 1.0)),
        },
        "weights": {
            "items": _log_histogram(np.asarray(board.arrays["item_weights"])[learnt]),
            "entries": _log_histogram(weights[weights > 0]),
        },
    }


def _log_histogram(values: FloatArray) -> dict[str, Any]:
    low, high = float(values.min()), float(values.max())
    edges = np.geomspace(low, max(high, low * (1 + 1e-9)), _BINS + 1)
    edges[0], edges[-1] = low, max(high, edges[-2])
    return {"edges": edges.tolist(), "values": np.histogram(values, bins=edges)[0].tolist()}
