"""Private FedRep, as the rest of the house knows it."""

import numpy as np

from fedboard.common.board import Board
from fedboard.common.tasks.fedrep_private.config import FedRepConfig, FedRepShares, shares_by_release
from fedboard.common.tasks.fedrep_private.task import FedRepPrivate
from fedboard.common.tasks.on_examples.record import ExampleAlgorithm
from fedboard.common.tasks.representation.algorithm import representation_rule
from fedboard.common.tasks.shared.array_rules import ArrayRule

_MOST_USERS = 1e12


def _array_rules(board: Board, settings: FedRepConfig) -> tuple[ArrayRule, ...]:
    users = ArrayRule(name="users", dtype=np.dtype(np.float64), shape=(1,), low=1.0, high=_MOST_USERS)
    return (representation_rule(board, settings.rank), users)


ALGORITHM = ExampleAlgorithm(
    name=FedRepPrivate.NAME,
    settings=FedRepConfig,
    shares=FedRepShares,
    shares_by_release=shares_by_release,
    task=FedRepPrivate,
    array_rules=_array_rules,
    fixed={},
)
"""Gradient steps in place of noised normal equations."""
