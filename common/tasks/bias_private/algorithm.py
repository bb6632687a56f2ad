"""A private constant, private item means and private item biases, as the rest of the house knows them."""

from importlib.resources import files

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.tasks.bias_private.config import (
    BiasConfig,
    BiasShares,
    complete,
    shares_by_release,
)
from fedboard.common.tasks.bias_private.task import BiasPrivate, base_of
from fedboard.common.tasks.shared.algorithm import Algorithm
from fedboard.common.tasks.shared.array_rules import ArrayRule, mean_rating, number, prepared
from fedboard.common.tasks.shared.ratings_config import Feedback
from fedboard.common.tasks.shared.regression import Regression


def _task(settings: BiasConfig, *, backend: str, features: FloatArray | None) -> BiasPrivate:
    return BiasPrivate(settings, backend=backend)


def _array_rules(board: Board, settings: BiasConfig) -> tuple[ArrayRule, ...]:
    """What a device requires of the arrays before it computes anything."""
    biases = ArrayRule(name="item_biases", dtype=np.dtype(np.float32), shape=(board.catalogue.n_items,))
    spread = number("spread", 0.0, settings.shared.half_range)
    return (biases, *prepared(board), *mean_rating(settings.shared), spread)


def _regression(settings: BiasConfig, own: Cohort, board: Board) -> Regression:
    """Her own model is a ridge regression on a constant."""
    base = base_of(board)
    return Regression(vectors=np.ones((base.size, 1)), base=base, ridge=settings.user_ridge, gram=0.0)


ALGORITHM = Algorithm(
    name=BiasPrivate.NAME,
    variants={
        "bias-private": {"rounds": 2},
        "item-mean-private": {"rounds": 1},
        "mean-private": {"rounds": 0},
    },
    feedback=frozenset({Feedback.EXPLICIT}),
    settings=BiasConfig,
    shares=BiasShares,
    shares_by_release=shares_by_release,
    task=_task,
    array_rules=_array_rules,
    folder=files(__package__),
    regression=_regression,
    complete=complete,
    floors=("item-mean-private", "bias-private"),
)
"""One task with two, one or no rounds over items."""
