"""Whether the arrays of a board are such that a device may compute from it: rules of what is public alone.

Which arrays there are and what each must be, the algorithm says (``arrays.py`` beside its task); that they are held
to it before anything is computed, for all items alike, is decided here.
"""

from fedboard.common.board import Board
from fedboard.common.tasks.adadpals import arrays as adadpals
from fedboard.common.tasks.adadpals.task import AdaDpals
from fedboard.common.tasks.adadpsgd import arrays as adadpsgd
from fedboard.common.tasks.adadpsgd.task import AdaDpsgd
from fedboard.common.tasks.langevin import arrays as langevin
from fedboard.common.tasks.langevin.task import Langevin
from fedboard.common.tasks.registry import KnownTask
from fedboard.common.tasks.residual import arrays as residual
from fedboard.common.tasks.residual.task import Residual
from fedboard.common.tasks.shared.array_rules import ArrayRule


def array_rules(board: Board, task: KnownTask) -> tuple[ArrayRule, ...]:
    """The rules of all arrays that a device reads of a board of this version.

    Args:
        board: its version and its catalogue alone are looked at. Public.
        task: rebuilt from it.
    """
    match task:
        case AdaDpals():
            return adadpals.array_rules(board, task.settings)
        case AdaDpsgd():
            return adadpsgd.array_rules(board, task.settings)
        case Langevin():
            return langevin.array_rules(board, task.settings)
        case Residual():
            return residual.array_rules(board, task.settings)


def has_sound_arrays(board: Board, task: KnownTask) -> bool:
    """Whether a board holds all that a device reads of it, each array as its rule says."""
    return all(rule.holds(board.arrays.get(rule.name)) for rule in array_rules(board, task))


__all__ = ["array_rules", "has_sound_arrays"]
