"""The arrays that a device reads of a board of AdaDPSGD."""

from fedboard.common.board import Board
from fedboard.common.tasks.adadpals.arrays import model_rules
from fedboard.common.tasks.adadpsgd.config import AdaDpsgdConfig
from fedboard.common.tasks.shared.array_rules import ArrayRule, vectors


def array_rules(board: Board, settings: AdaDpsgdConfig) -> tuple[ArrayRule, ...]:
    """The rules of all of them; the board's version and catalogue alone are looked at. Public."""
    kept = board.version > 0 and settings.steps_per_solve > 1
    solved = vectors("solve_factors", board, settings.rank, needed=kept)
    # Its bounds are fixed, so a moving one is none of its arrays; what is there under that name is not read.
    return (*model_rules(board, settings.model), solved)
