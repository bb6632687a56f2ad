"""Rows and sums as the arrays of a frame."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Contribution
from fedboard.common.protocols.trusted.messages import DenseMessage, FactoredMessage, TrustedMessage
from fedboard.common.wire.refusals import Refusal, RefusedError

_TOTAL = "total/"
_ENTRY_ARRAYS = ("weights", "responses")
_ROW_ARRAYS = ("indptr", "items", "vectors", *_ENTRY_ARRAYS)


def arrays_of(message: TrustedMessage) -> tuple[str, dict[str, NDArray[Any]]]:
    """A message's form, and its contents as a frame carries them."""
    if isinstance(message, DenseMessage):
        return "dense", dict(message.sums)
    rows = message.contribution
    arrays: dict[str, NDArray[Any] | None] = {name: getattr(rows, name) for name in _ROW_ARRAYS}
    found = {name: array for name, array in arrays.items() if array is not None}
    return "factored", found | {_TOTAL + name: total for name, total in rows.totals.items()}


def message_of(
    form: str, arrays: Mapping[str, NDArray[Any]], *, n_users: int, n_items: int
) -> TrustedMessage:
    """The message that a frame carries. Shapes fit together; no number is within any bound yet.

    Args:
        form: as the frame states it.
        arrays: from a client that need not be honest.
        n_users: as the frame states it.
        n_items: as the frame states it.

    Raises:
        RefusedError: not such a message.
    """
    if form == "dense":
        return DenseMessage(_sums(arrays))
    if form != "factored":
        raise RefusedError(Refusal.WRONG_FORM)
    return FactoredMessage(_rows(arrays, n_users, n_items))


def _sums(arrays: Mapping[str, NDArray[Any]]) -> Mapping[str, IntArray]:
    if any(array.dtype != np.int64 or array.ndim != 2 for array in arrays.values()):
        raise RefusedError(Refusal.MALFORMED)
    return arrays


def _rows(arrays: Mapping[str, NDArray[Any]], n_users: int, n_items: int) -> Contribution:
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
