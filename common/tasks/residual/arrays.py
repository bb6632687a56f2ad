"""The arrays that a device reads of a board of residual alternating minimisation."""

from fedboard.common.board import Board
from fedboard.common.tasks.residual.config import ResidualConfig
from fedboard.common.tasks.shared.array_rules import (
    ArrayRule,
    biased_model,
    mean_rating,
    moving_clip_norm,
    number,
    prepared,
    vectors,
)


def array_rules(board: Board, settings: ResidualConfig) -> tuple[ArrayRule, ...]:
    """The rules of all of them; the board's version and catalogue alone are looked at. Public."""
    model = (
        *biased_model(board, settings.rank),
        vectors("sketch_factors", board, settings.rank, needed=False),
        moving_clip_norm(settings),
    )
    if board.version == 0:
        return model
    mean = mean_rating(settings.shared) if settings.has_biases else (number("mean", 0.0, 0.0),)
    return (*model, *prepared(board), *mean)
