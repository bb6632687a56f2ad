"""One model for everybody, as the rest of the house knows it: what a personal model has to beat."""

import numpy as np

from fedboard.common.board import Board
from fedboard.common.tasks.on_examples.record import ExampleAlgorithm
from fedboard.common.tasks.representation.single_model import (
    SingleModel,
    SingleModelConfig,
    SingleModelShares,
    shares_by_release,
)
from fedboard.common.tasks.shared.array_rules import ArrayRule


def _array_rules(board: Board, settings: SingleModelConfig) -> tuple[ArrayRule, ...]:
    shape = (board.catalogue.n_items,)
    return (ArrayRule(name="model", dtype=np.dtype(np.float64), shape=shape),)


ALGORITHM = ExampleAlgorithm(
    name=SingleModel.NAME,
    settings=SingleModelConfig,
    shares=SingleModelShares,
    shares_by_release=shares_by_release,
    task=SingleModel,
    array_rules=_array_rules,
    fixed={},
)
"""A baseline."""
