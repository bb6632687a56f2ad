"""The arrays that a device reads of a board of AdaDPALS."""

from fedboard.common.board import Board
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig
from fedboard.common.tasks.shared.array_rules import (
    ArrayRule,
    biased_model,
    mean_rating,
    moving_clip_norm,
    number,
    prepared,
    vectors,
)
from fedboard.common.tasks.shared.ratings_config import Feedback


def array_rules(board: Board, settings: AdaDpalsConfig) -> tuple[ArrayRule, ...]:
    """The rules of all of them; the board's version and catalogue alone are looked at. Public."""
    return (*model_rules(board, settings), *_bias_rules(board, settings), moving_clip_norm(settings))


def _bias_rules(board: Board, settings: AdaDpalsConfig) -> tuple[ArrayRule, ...]:
    if not settings.biases or not board.version:
        return ()
    spread = number("spread", 0.0, settings.shared.half_range)
    return (biased_model(board, settings.rank)[1], spread)


def model_rules(board: Board, settings: AdaDpalsConfig) -> tuple[ArrayRule, ...]:
    """Those of the model itself, without what follows the users' norms."""
    return (
        vectors("item_factors", board, settings.rank),
        *(prepared(board) if board.version else ()),
        *(
            mean_rating(settings.shared)
            if board.version and settings.shared.feedback is Feedback.EXPLICIT
            else ()
        ),
    )
