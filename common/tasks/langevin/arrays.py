"""The arrays that a device reads of a board of the Langevin task."""

from fedboard.common.board import Board
from fedboard.common.tasks.langevin.config import LangevinConfig
from fedboard.common.tasks.shared.array_rules import (
    ROUNDING,
    ArrayRule,
    biased_model,
    mean_rating,
    number,
    prepared,
)


def array_rules(board: Board, settings: LangevinConfig) -> tuple[ArrayRule, ...]:
    """The rules of all of them; the board's version and catalogue alone are looked at. Public."""
    model = biased_model(board, settings.rank)
    if board.version == 0:
        return model
    largest = settings.vector_bound * settings.model.residual_bound
    clip_norm = number("clip_norm", largest * ROUNDING, largest)
    return (*model, *prepared(board), *mean_rating(settings.shared), clip_norm)
