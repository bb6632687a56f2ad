"""The task that a board was made by, rebuilt from the board alone: what a device and a resumed server do."""

from typing import TypeAlias

import msgspec

from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.common.tasks.adadpals.config import AdaDpalsConfig
from fedboard.common.tasks.adadpals.task import AdaDpals
from fedboard.common.tasks.adadpsgd.config import AdaDpsgdConfig
from fedboard.common.tasks.adadpsgd.task import AdaDpsgd
from fedboard.common.tasks.langevin.config import LangevinConfig
from fedboard.common.tasks.langevin.task import Langevin
from fedboard.common.tasks.residual.config import ResidualConfig
from fedboard.common.tasks.residual.task import Residual

KnownTask: TypeAlias = AdaDpals | AdaDpsgd | Langevin | Residual


def rebuild_task(board: Board, *, backend: str = "numpy", features: FloatArray | None = None) -> KnownTask:
    """Rebuild the task from a board's name and public configuration.

    Args:
        board: of any version; version 0 says all that devices will be asked.
        backend: which kernels compute; the default are those of the base install.
        features: public features of the items, float64, shape (n_items, n_features), for the server of a
            ``residual`` run that uses them.

    Raises:
        InputError: this version of fedboard does not know the task or its configuration.
    """
    try:
        if board.task == AdaDpals.NAME:
            return AdaDpals(msgspec.convert(dict(board.config), AdaDpalsConfig), backend=backend)
        if board.task == AdaDpsgd.NAME:
            return AdaDpsgd(msgspec.convert(dict(board.config), AdaDpsgdConfig), backend=backend)
        if board.task == Langevin.NAME:
            return Langevin(msgspec.convert(dict(board.config), LangevinConfig), backend=backend)
        if board.task == Residual.NAME:
            settings = msgspec.convert(dict(board.config), ResidualConfig)
            return Residual(settings, backend=backend, features=features)
    except msgspec.ValidationError as error:
        raise InputError(
            f"the board's configuration is not one that this version of fedboard knows: {error}"
        ) from error
    raise InputError(
        f"this board was made by the task {board.task!r}; this version of fedboard reads {AdaDpals.NAME!r}, "
        f"{AdaDpsgd.NAME!r}, {Langevin.NAME!r} and {Residual.NAME!r}"
    )


__all__ = ["KnownTask", "rebuild_task"]
