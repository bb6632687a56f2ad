"""Whether the arrays of a board are such that a device may compute from it: rules of what is public alone.

Which arrays there are and what each must be, the algorithm says (``array_rules`` of its record); that they are held
to it before anything is computed, for all items alike, is decided here.
"""

import numpy as np

from fedboard.common.algorithms.registry import BoardTask, algorithm_of, example_algorithm_of
from fedboard.common.algorithms.shared.array_rules import ArrayRule
from fedboard.common.algorithms.supervised.examples import CohortTask
from fedboard.common.board import Board
from fedboard.common.queries.statement import BRACKET, StatedQuestion


def array_rules(board: Board, task: BoardTask) -> tuple[ArrayRule, ...]:
    """The rules of all arrays that a device reads of a board of this version.

    Args:
        board: its version and its catalogue alone are looked at. Public.
        task: rebuilt from it.

    Raises:
        InputError: an algorithm that is not installed here.
    """
    if isinstance(task, StatedQuestion):
        last = len(task.statement.candidates) - 1
        left = ArrayRule(name=BRACKET, dtype=np.dtype(np.int64), shape=(2,), low=0, high=last)
        return (left,) if task.statement.bisected else ()
    if isinstance(task, CohortTask):
        return example_algorithm_of(task.name).array_rules(board, task.task.settings)
    return algorithm_of(task.name).array_rules(board, task.settings)


def has_sound_arrays(board: Board, task: BoardTask) -> bool:
    """Whether a board holds all that a device reads of it, each array as its rule says."""
    return all(rule.holds(board.arrays.get(rule.name)) for rule in array_rules(board, task))
