"""What a server and its devices say in a round: kinds of messages, the question, the answer, what is booked.

What kinds of messages a device gets, whoever carries them.

The question of a round: the board, and who asks. All of it is public.

What is asked is not in it: the client rebuilds the task from the board and works the requests out itself, so
nothing can be asked that the published board does not state.

The answer of a client to the question of a round: its rows *factored*, as they are, rank + 4 |Omega_j| numbers, as
the arrays of a frame; or a refusal. An answer holds private rows. It is for the aggregator alone, for the time of a
round.

What a server has booked, as it tells devices before it draws noise: a round of a run, and the ledger's head.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.common.board import Board
from fedboard.common.contribution import Contribution
from fedboard.common.errors import InputError
from fedboard.common.messages.frame import Frame, pack_frame, unpack_frame
from fedboard.common.messages.refusals import Refusal, RefusedError

ROUND: Final = "query.round"
"""A round that is one question."""
STEP: Final = "query.step"
"""One step of a session."""


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
    """Public half of the key that replies are sealed to, see ``fedboard.common.messages.sealing``."""

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
        fields = {name: getattr(self, name) for name in _Fields.__struct_fields__}
        fields |= {"reply_key": self.reply_key.hex()}
        board = np.frombuffer(self.board.to_bytes(), dtype=np.uint8)
        return pack_frame(self.KIND, fields, {"board": board})

    @classmethod
    def from_bytes(cls, content: bytes | memoryview) -> "Question":
        """Read a question.

        Raises:
            RefusedError: not one, or its board cannot be read.
        """
        frame = unpack_frame(content, kinds=(cls.KIND,), limit=cls.MAX_BYTES)
        fields = frame.read(_Fields)
        (stored,) = frame.arrays_as({"board": ("u1", (None,))})
        board = board_of_round(stored, version=fields.round)
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


def board_of_round(stored: NDArray[np.uint8], *, version: int, digest: str | None = None) -> Board:
    """The board that a round asks about.

    Args:
        stored: its file, from a server that need not be honest.
        version: that it must have.
        digest: that it must have; None: any.

    Raises:
        RefusedError: it cannot be read, or is another one.
    """
    try:
        board = Board.from_bytes(stored, max_header=Question.MAX_BOARD_HEADER)
    except InputError:
        raise RefusedError(Refusal.BAD_BOARD) from None
    if board.version != version:
        raise RefusedError(Refusal.WRONG_ROUND)
    if digest is not None and board.digest != digest:
        raise RefusedError(Refusal.WRONG_BOARD)
    return board


FORM = "factored"
"""What messages, questions and boards call rows that are sent as they are."""
_TOTAL = "total/"
_ENTRY_ARRAYS = ("weights", "responses")
_ROW_ARRAYS = ("indptr", "items", "vectors", *_ENTRY_ARRAYS)


def arrays_of(rows: Contribution) -> dict[str, NDArray[Any]]:
    """The rows of one client as a frame carries them."""
    arrays: dict[str, NDArray[Any] | None] = {name: getattr(rows, name) for name in _ROW_ARRAYS}
    found = {name: array for name, array in arrays.items() if array is not None}
    return found | {_TOTAL + name: total for name, total in rows.totals.items()}


def rows_of(form: str, arrays: Mapping[str, NDArray[Any]], *, n_users: int, n_items: int) -> Contribution:
    """The rows that a frame carries. Shapes fit together; no number is within any bound yet.

    Args:
        form: as the frame states it.
        arrays: from a client that need not be honest.
        n_users: as the frame states it.
        n_items: as the frame states it.

    Raises:
        RefusedError: not such rows.
    """
    if form != FORM:
        raise RefusedError(Refusal.WRONG_FORM)
    totals = {n.removeprefix(_TOTAL): array for n, array in arrays.items() if n.startswith(_TOTAL)}
    named = {name: array for name, array in arrays.items() if not name.startswith(_TOTAL)}
    indptr, items = named.get("indptr"), named.get("items")
    if indptr is None or items is None or not set(named) <= set(_ROW_ARRAYS):
        raise RefusedError(Refusal.MALFORMED)
    if indptr.shape != (n_users + 1,) or items.ndim != 1:
        raise RefusedError(Refusal.MALFORMED)
    return Contribution(
        n_items=n_items,
        indptr=indptr,
        items=items,
        weights=named.get("weights"),
        vectors=named.get("vectors"),
        responses=named.get("responses"),
        totals=totals,
    )


class _AnswerFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: str
    round: int
    board_digest: str
    form: str
    n_users: int
    n_items: int
    first_row: int


class _RefusalFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    code: Refusal


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer:
    """What one client gives to one round."""

    KIND: ClassVar[str] = "answer"
    REFUSAL: ClassVar[str] = "refusal"

    run: str
    round: int
    board_digest: str
    """Of the board that it was made from."""
    n_users: int
    """Number of rows behind it."""
    first_row: int
    """Number of the first row in a simulated population; 0 on a device."""
    rows: Contribution
    """Private."""

    def to_bytes(self, *, n_items: int) -> bytes:
        """The message as it travels."""
        given = {"form": FORM, "n_items": n_items}
        names = _AnswerFields.__struct_fields__
        fields = {name: given[name] if name in given else getattr(self, name) for name in names}
        return pack_frame(self.KIND, fields, arrays_of(self.rows))

    @classmethod
    def from_bytes(cls, content: bytes, *, limit: int) -> "Answer":
        """Read an answer. Shapes fit together; no number is within any bound yet.

        Args:
            content: from a client that need not be honest.
            limit: most bytes that are taken.

        Raises:
            RefusedError: not an answer, or a refusal, whose code it then has.
        """
        frame = unpack_frame(content, kinds=(cls.KIND, cls.REFUSAL), limit=limit)
        if frame.kind == cls.REFUSAL:
            raise refused_in(frame)
        fields = frame.read(_AnswerFields)
        if not 0 <= fields.first_row < 2**62 or fields.n_users < 0:
            raise RefusedError(Refusal.MALFORMED)
        rows = rows_of(fields.form, frame.arrays, n_users=fields.n_users, n_items=fields.n_items)
        return cls(
            run=fields.run,
            round=fields.round,
            board_digest=fields.board_digest,
            n_users=fields.n_users,
            first_row=fields.first_row,
            rows=rows,
        )


def refusal(code: Refusal) -> bytes:
    """The message of a client that does not answer."""
    return pack_frame(Answer.REFUSAL, {"code": code.value}, {})


def refused_in(frame: Frame) -> RefusedError:
    """What a client that does not answer said.

    Raises:
        RefusedError: not even that can be read.
    """
    return RefusedError(frame.read(_RefusalFields).code)


class BookedRound(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last round of a run that a server has booked. Public."""

    KIND: ClassVar[str] = "booked"

    run: str
    """Unique among all runs, for ever."""
    round: int
    """Version of the board that it asked about; -1: none is booked."""
    head: str
    """Of the ledger, with that round."""
    by: str
    """At random, of the one time that it is told: a server that was put back may come to the same head."""

    def to_bytes(self) -> bytes:
        """The message."""
        return pack_frame(self.KIND, msgspec.structs.asdict(self), {})

    @classmethod
    def from_bytes(cls, content: bytes | memoryview) -> "BookedRound":
        """Read it.

        Raises:
            RefusedError: not one.
        """
        return unpack_frame(content, kinds=(cls.KIND,), limit=1 << 12).read(cls)
