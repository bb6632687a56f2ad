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
    private_noise: bool
    reply_key: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Question:
    """One question to all clients of a run."""

    KIND: ClassVar[str] = "question"
    VERSION: ClassVar[int] = 2
    """Of the message."""
    MAX_BYTES: ClassVar[int] = 1 << 31
    MAX_BOARD_HEADER: ClassVar[int] = 1 << 22
    """Configuration and certificate of a board; reading more would cost a device too much."""

    run: str
    """Unique among all runs, for ever."""
    protocol: str
    """Name of the aggregation protocol."""
    form: str
    """Its wire form."""
    board: Board
    """The last published one, with its certificate."""
    private_noise: bool
    """Whether the server states that nobody can reproduce its noise; false in a simulation."""
    reply_key: bytes
    """Public half of the key that replies are sealed to, see ``fedboard.common.wire.sealing``."""

    @property
    def round(self) -> int:
        """Version of the board that is asked about."""
        return self.board.version

    @property
    def about(self) -> bytes:
        """What a reply must be about."""
        return f"{self.run}\n{self.round}\n{self.board.digest}".encode(errors="surrogatepass")

    @cached_property
    def content(self) -> bytes:
        """The message."""
        fields = {
            "run": self.run,
            "round": self.round,
            "protocol": self.protocol,
            "form": self.form,
            "private_noise": self.private_noise,
            "reply_key": self.reply_key.hex(),
        }
        board = np.frombuffer(self.board.to_bytes(), dtype=np.uint8)
        return pack_frame(self.KIND, fields, {"board": board}, version=self.VERSION)

    @classmethod
    def from_bytes(cls, content: bytes | memoryview) -> "Question":
        """Read a question.

        Raises:
            RefusedError: not one, or its board cannot be read.
        """
        frame = unpack_frame(content, kinds=(cls.KIND,), limit=cls.MAX_BYTES, version=cls.VERSION)
        fields = frame.read(_Fields)
        stored = frame.arrays.get("board")
        if set(frame.arrays) != {"board"} or stored is None or stored.dtype != np.uint8 or stored.ndim != 1:
            raise RefusedError(Refusal.MALFORMED)
        try:
            board = Board.from_bytes(stored, max_header=cls.MAX_BOARD_HEADER)
        except InputError:
            raise RefusedError(Refusal.BAD_BOARD) from None
        if board.version != fields.round:
            raise RefusedError(Refusal.WRONG_ROUND)
        try:
            reply_key = bytes.fromhex(fields.reply_key)
        except ValueError:
            raise RefusedError(Refusal.MALFORMED) from None
        return cls(
            run=fields.run,
            protocol=fields.protocol,
            form=fields.form,
            board=board,
            private_noise=fields.private_noise,
            reply_key=reply_key,
        )
