"""The shared representation, as the rest of the house knows it."""

import numpy as np

from fedboard.common.board import Board
from fedboard.common.tasks.on_examples.record import ExampleAlgorithm
from fedboard.common.tasks.representation.config import (
    RepresentationConfig,
    RepresentationShares,
    shares_by_release,
)
from fedboard.common.tasks.representation.task import Representation
from fedboard.common.tasks.shared.array_rules import ROUNDING, ArrayRule


def representation_rule(board: Board, rank: int) -> ArrayRule:
    """Columns of norm 1, or zeros on board 0: no entry is beyond 1."""
    shape = (board.catalogue.n_items, rank)
    return ArrayRule(
        name="representation",
        dtype=np.dtype(np.float64),
        shape=shape,
        low=-1.0 - ROUNDING,
        high=1.0 + ROUNDING,
    )


def _array_rules(board: Board, settings: RepresentationConfig) -> tuple[ArrayRule, ...]:
    return (representation_rule(board, settings.rank),)


ALGORITHM = ExampleAlgorithm(
    name=Representation.NAME,
    settings=RepresentationConfig,
    shares=RepresentationShares,
    shares_by_release=shares_by_release,
    task=Representation,
    array_rules=_array_rules,
    fixed={"cohorts": 1},
)
"""Private alternating minimisation."""
