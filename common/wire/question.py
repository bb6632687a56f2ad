"""The question of a round: the board, and who asks. All of it is public.

What is asked is not in it: the client rebuilds the task from the board and works the requests out itself, so
nothing can be asked that the published board does not state.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import msgspec
import numpy as np

from fedboard.common.board import Board
from fedboard.common.errors import InputError
from fedboard.common.wire.frame import pack_frame, unpack_frame
from fedboard.common.wire.refusals import Refusal, RefusedError


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: str
    round: int
    protocol: str
    form: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Question:
    """One question to all clients of a run."""

    KIND: ClassVar[str] = "question"
    MAX_BYTES: ClassVar[int] = 1 << 31

    run: str
    """Unique among all runs, for ever."""
    protocol: str
    """Name of the aggregation protocol."""
    form: str
    """Its wire form."""
    board: Board
    """The last published one, with its certificate."""

    @property
    def round(self) -> int:
        """Version of the board that is asked about."""
        return self.board.version

    @cached_property
    def content(self) -> bytes:
        """The message."""
        fields = {"run": self.run, "round": self.round, "protocol": self.protocol, "form": self.form}
        board = np.frombuffer(self.board.to_bytes(), dtype=np.uint8)
        return pack_frame(self.KIND, fields, {"board": board})

    @classmethod
    def from_bytes(cls, content: bytes) -> "Question":
        """Read a question.

        Raises:
            RefusedError: not one, or its board cannot be read.
        """
        frame = unpack_frame(content, kinds=(cls.KIND,), limit=cls.MAX_BYTES)
        fields = frame.read(_Fields)
        stored = frame.arrays.get("board")
        if set(frame.arrays) != {"board"} or stored is None or stored.dtype != np.uint8 or stored.ndim != 1:
            raise RefusedError(Refusal.MALFORMED)
        try:
            board = Board.from_bytes(stored)
        except InputError:
            raise RefusedError(Refusal.BAD_BOARD) from None
        if board.version != fields.round:
            raise RefusedError(Refusal.WRONG_ROUND)
        return cls(run=fields.run, protocol=fields.protocol, form=fields.form, board=board)


__all__ = ["Question"]
