"""What a reader of one format hands on: three columns in file order, and how to name a row in a message."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedboard.common.arrays import Float32Array, IntArray
from fedboard.common.checks import try_columns
from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping, printable
from fedboard.simulations.datasets.numbering import Numbered, number_integers, number_texts


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RawColumns:
    """Ratings in the order of the file, ids already numbered. Private."""

    users: Numbered
    items: Numbered
    values: Float32Array
    """float32, shape (n_rows,): not yet checked against the rating range."""
    locate: Callable[[int], str]
    """Names row number ``k`` (from 0) for a message, such as ``ratings.csv, line 17``; may be slow."""
    times: IntArray | None = None
    """int64, shape (n_rows,): when each was given, see ``splits.times``; None: not asked."""
    repeats: bool = False
    """Whether a pair may occur several times: then the latest rating counts, of several at one time the highest."""


def number_arrow_column(column: Any) -> Numbered:
    """Number a pyarrow column of whole numbers, text or dictionary-encoded text without empty cells.

    Args:
        column: a ``pyarrow.ChunkedArray``, at least one row.
    """
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return number_integers(column.to_numpy())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    chunks = column.unify_dictionaries().chunks
    codes = np.concatenate([np.asarray(chunk.indices, dtype=np.int32) for chunk in chunks])
    words = [str(word) for word in chunks[0].dictionary.to_pylist()]
    used = np.flatnonzero(np.bincount(codes, minlength=len(words)))
    if used.size < len(words):
        table = np.zeros(len(words), dtype=np.int32)
        table[used] = np.arange(used.size, dtype=np.int32)
        codes, words = table[codes], [words[position] for position in used]
    return number_texts(codes, words)


def presence_of(raw: RawColumns) -> RawColumns:
    """Who used what, of counts: a count above 0 is a 1, a count of 0 is no row; a pair may come several times.

    Raises:
        InputError: a count that is negative or no number, or none above 0.
    """
    wrong, kept = ~(raw.values >= 0), raw.values > 0
    if wrong.any():
        raise InputError(f"{raw.locate(int(np.argmax(wrong)))}: the count is negative or NaN; correct it.")
    if not kept.any():
        raise InputError(
            f"{raw.locate(0)}: this count and all others are 0; give a file where something is used."
        )
    rows = np.flatnonzero(kept)
    return RawColumns(
        users=raw.users.only(kept),
        items=raw.items.only(kept),
        values=np.ones(rows.size, dtype=np.float32),
        locate=lambda row: raw.locate(int(rows[row])),
        times=None if raw.times is None else raw.times[rows],
        repeats=True,
    )


def require_columns(where: str, found: list[str], wanted: ColumnMapping) -> None:
    """Check that each wanted column is there exactly once.

    Args:
        where: names the header in messages, such as ``ratings.csv, line 1``.
        found: the names of all columns.
        wanted: the names of the columns for user, item and rating, and of the one that says when if it is named.

    Raises:
        InputError: a column is missing or occurs twice.
    """
    names = (wanted.user, wanted.item, wanted.rating)
    if len(set(names)) < len(names):
        raise InputError(
            f"{where}: the columns for user, item and rating must differ, got {', '.join(names)}; "
            "name three different columns."
        )
    timed = () if wanted.time is None else (("time", wanted.time),)
    for role, name in (*zip(("user", "item", "rating"), names, strict=True), *timed):
        if name not in found:
            raise InputError(
                f"{where}: there is no column {name!r} for the {role}, "
                f"only {', '.join(map(printable, found))}"
                f"{_remedy(found, wanted)}"
            )
        if found.count(name) > 1:
            raise InputError(
                f"{where}: the column {name!r} occurs more than once; rename all but one of them."
            )


def _remedy(found: list[str], wanted: ColumnMapping) -> str:
    guess = try_columns(found, {"user": wanted.user, "item": wanted.item, "rating": wanted.rating})
    if guess:
        return f"{guess} (in a configuration data.columns, in Python columns)."
    return "; give a table with a header line and name its columns: --columns user=...,item=...,rating=..."
