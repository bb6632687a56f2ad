"""The arrays that a device reads of a board of residual alternating minimisation."""

from fedboard.common.board import Board
from fedboard.common.tasks.residual.config import ResidualConfig
from fedboard.common.tasks.residual.ridges import RIDGES
from fedboard.common.tasks.residual.rounds import LEAST_COUNT
from fedboard.common.tasks.shared.array_rules import (
    ROUNDING,
    ArrayRule,
    biased_model,
    mean_rating,
    moving_clip_norm,
    number,
    prepared,
    vectors,
)
from fedboard.common.tasks.shared.levels.rating_level import LEAST_SPREAD


def array_rules(board: Board, settings: ResidualConfig) -> tuple[ArrayRule, ...]:
    """The rules of all of them; the board's version and catalogue alone are looked at. Public."""
    model = (
        *biased_model(board, settings.rank),
        vectors("sketch_factors", board, settings.rank, needed=False),
        moving_clip_norm(settings),
    )
    if board.version == 0:
        return model
    if not settings.has_biases:
        return (*model, *prepared(board), number("mean", 0.0, 0.0))
    widest = settings.shared.half_range
    level = (*mean_rating(settings.shared), number("spread", LEAST_SPREAD * widest, widest))
    ridge = number("user_ridge", *_ridge_limits(settings), needed=False)
    explores = number("explores", 0.0, 1.0, needed=False)
    return (*model, *prepared(board, least_count=LEAST_COUNT), *level, ridge, explores)


def _ridge_limits(settings: ResidualConfig) -> tuple[float, float]:
    """Candidates and the configured ridge, for every spread."""
    widest, strengths = settings.shared.half_range, (*RIDGES, settings.user_ridge)
    low, high = min(strengths) * (LEAST_SPREAD * widest) ** 2, max(strengths) * widest**2
    return low * (1 - ROUNDING), high * (1 + ROUNDING)
