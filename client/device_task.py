"""The task that a board was made by, rebuilt from the board alone, as a device does."""

import msgspec

from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.common.tasks.adadpals import AdaDpals
from fedboard.common.tasks.adadpals_config import AdaDpalsConfig


def device_task(board: Board) -> AdaDpals:
    """Rebuild the task from a board's name and public configuration, with the kernels of the base install.

    Raises:
        InputError: this version of fedboard does not know the task or its configuration.
    """
    if board.task != AdaDpals.NAME:
        raise InputError(
            f"this board was made by the task {board.task!r}; this version of fedboard reads {AdaDpals.NAME!r} only"
        )
    try:
        settings = msgspec.convert(dict(board.config), AdaDpalsConfig)
    except msgspec.ValidationError as error:
        raise InputError(
            f"the board's configuration is not one that this version of fedboard knows: {error}"
        ) from error
    return AdaDpals(settings, backend="numpy")


__all__ = ["device_task"]
