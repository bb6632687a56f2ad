"""The task that a board was made by, rebuilt from the board alone, as a device does."""

from typing import TypeAlias

import msgspec

from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.common.tasks.adadpals import AdaDpals
from fedboard.common.tasks.adadpals_config import AdaDpalsConfig
from fedboard.common.tasks.residual import Residual
from fedboard.common.tasks.residual_config import ResidualConfig

DeviceTask: TypeAlias = AdaDpals | Residual


def device_task(board: Board) -> DeviceTask:
    """Rebuild the task from a board's name and public configuration, with the kernels of the base install.

    Raises:
        InputError: this version of fedboard does not know the task or its configuration.
    """
    try:
        if board.task == AdaDpals.NAME:
            return AdaDpals(msgspec.convert(dict(board.config), AdaDpalsConfig))
        if board.task == Residual.NAME:
            return Residual(msgspec.convert(dict(board.config), ResidualConfig))
    except msgspec.ValidationError as error:
        raise InputError(
            f"the board's configuration is not one that this version of fedboard knows: {error}"
        ) from error
    raise InputError(
        f"this board was made by the task {board.task!r}; this version of fedboard reads {AdaDpals.NAME!r} and "
        f"{Residual.NAME!r}"
    )


__all__ = ["DeviceTask", "device_task"]
