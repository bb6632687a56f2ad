"""The answer of a client to the question of a round: one message of the protocol, or a refusal.

An answer holds private rows. It is for the aggregator alone, for the time of a round.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Contribution
from fedboard.common.protocols.trusted import DenseMessage, FactoredMessage, TrustedMessage
from fedboard.common.wire.frame import Frame, pack_frame, unpack_frame
from fedboard.common.wire.refusals import Refusal, RefusedError

_TOTAL = "total/"
_ENTRY_ARRAYS = ("weights", "responses")
_ROW_ARRAYS = ("indptr", "items", "vectors", *_ENTRY_ARRAYS)


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    message: TrustedMessage

    def to_bytes(self, *, n_items: int) -> bytes:
        """The message as it travels."""
        form, arrays = _arrays(self.message)
        fields = {
            "run": self.run,
            "round": self.round,
            "board_digest": self.board_digest,
            "form": form,
            "n_users": self.n_users,
            "n_items": n_items,
            "first_row": self.first_row,
        }
        return pack_frame(self.KIND, fields, arrays)

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
            raise RefusedError(frame.read(_RefusalFields).code)
        fields = frame.read(_Fields)
        if not 0 <= fields.first_row < 2**62 or fields.n_users < 0:
            raise RefusedError(Refusal.MALFORMED)
        message = _message(frame, fields)
        return cls(
            run=fields.run,
            round=fields.round,
            board_digest=fields.board_digest,
            n_users=fields.n_users,
            first_row=fields.first_row,
            message=message,
        )


def refusal(code: Refusal) -> bytes:
    """The message of a client that does not answer."""
    return pack_frame(Answer.REFUSAL, {"code": code.value}, {})


def _arrays(message: TrustedMessage) -> tuple[str, dict[str, NDArray[Any]]]:
    if isinstance(message, DenseMessage):
        return "dense", dict(message.sums)
    rows = message.contribution
    arrays: dict[str, NDArray[Any] | None] = {name: getattr(rows, name) for name in _ROW_ARRAYS}
    found = {name: array for name, array in arrays.items() if array is not None}
    return "factored", found | {_TOTAL + name: total for name, total in rows.totals.items()}


def _message(frame: Frame, fields: _Fields) -> TrustedMessage:
    if fields.form == "dense":
        return DenseMessage(_sums(frame.arrays))
    if fields.form != "factored":
        raise RefusedError(Refusal.WRONG_FORM)
    return FactoredMessage(_rows(frame.arrays, fields))


def _sums(arrays: Mapping[str, NDArray[Any]]) -> Mapping[str, IntArray]:
    if any(array.dtype != np.int64 or array.ndim != 2 for array in arrays.values()):
        raise RefusedError(Refusal.MALFORMED)
    return arrays


def _rows(arrays: Mapping[str, NDArray[Any]], fields: _Fields) -> Contribution:
    totals = {n.removeprefix(_TOTAL): array for n, array in arrays.items() if n.startswith(_TOTAL)}
    named = {name: array for name, array in arrays.items() if not name.startswith(_TOTAL)}
    indptr, items = named.get("indptr"), named.get("items")
    if indptr is None or items is None or not set(named) <= set(_ROW_ARRAYS):
        raise RefusedError(Refusal.MALFORMED)
    if indptr.shape != (fields.n_users + 1,) or items.ndim != 1:
        raise RefusedError(Refusal.MALFORMED)
    return Contribution(
        n_items=fields.n_items,
        indptr=indptr,
        items=items,
        weights=named.get("weights"),
        vectors=named.get("vectors"),
        responses=named.get("responses"),
        totals=totals,
    )


__all__ = ["Answer", "refusal"]
