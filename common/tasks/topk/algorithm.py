"""Top-k lists, as the rest of the house knows them."""

from importlib.resources import files

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.tasks.shared.algorithm import Algorithm
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.shared.regression import Regression
from fedboard.common.tasks.topk.arrays import array_rules
from fedboard.common.tasks.topk.config import TopKConfig, TopKShares, shares_by_release
from fedboard.common.tasks.topk.task import TopK


def _task(settings: TopKConfig, *, backend: str, features: FloatArray | None) -> TopK:
    return TopK(settings, backend=backend)


def _regression(settings: TopKConfig, own: Cohort, board: Board) -> Regression:
    """Her own items add up: item i gets <G_i, G_l> / P_ii of item l."""
    factors = np.asarray(board.arrays["item_factors"], dtype=np.float64)
    return Regression(
        vectors=factors,
        base=np.asarray(board.arrays["item_biases"], dtype=np.float64),
        ridge=1.0,
        gram=0.0,
        scale=np.asarray(board.arrays["item_scale"], dtype=np.float64),
    )


ALGORITHM = Algorithm(
    name=TopK.NAME,
    feedback=frozenset({Feedback.IMPLICIT}),
    settings=TopKConfig,
    shares=TopKShares,
    shares_by_release=shares_by_release,
    task=_task,
    array_rules=array_rules,
    folder=files(__package__),
    regression=_regression,
)
"""Presence alone; features come with the catalogue."""
