"""A task of any kind from its board: what rounds, devices and servers that run them need."""

from typing import TypeAlias

import msgspec

from fedboard.common.algorithms.registry import rebuild_task
from fedboard.common.algorithms.shared.algorithm import RatingTask
from fedboard.common.algorithms.supervised.examples import CohortTask
from fedboard.common.algorithms.supervised.registry import example_algorithm_of, learns_from_examples
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.common.queries.statement import StatedQuestion, rebuilt_question

AnyTask: TypeAlias = RatingTask | CohortTask
"""Of a training, of either kind; both are a ``ClientTask``."""
BoardTask: TypeAlias = AnyTask | StatedQuestion
"""Whatever a board may be about: a training or a question."""


def rebuild_any(board: Board, *, backend: str = "numpy", features: FloatArray | None = None) -> BoardTask:
    """The task that a board was made by, on ratings or on examples, or the question that it states, from the board
    alone.

    Args:
        board: of any version.
        backend: which kernels compute; of a task on ratings.
        features: public features of the items, of a task on ratings that uses them.

    Raises:
        InputError: the algorithm is not installed here, or does not know the configuration.
    """
    if board.task == StatedQuestion.NAME:
        return rebuilt_question(board)
    if not learns_from_examples(board.task):
        return rebuild_task(board, backend=backend, features=features)
    algorithm = example_algorithm_of(board.task)
    try:
        settings = msgspec.convert(dict(board.config), algorithm.settings)
    except msgspec.ValidationError as error:
        raise InputError(
            f"the board's configuration is not one that this version of fedboard knows: {error}"
        ) from error
    return CohortTask(algorithm.task(settings))
