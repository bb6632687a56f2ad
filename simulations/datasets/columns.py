"""What a reader of one format hands on: three columns in file order, and how to name a row in a message."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray, Float32Array, IntArray
from fedboard.common.checks import try_columns
from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping, printable
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.numbering import Numbered, number_integers, text_order

_TITLES = ("title", "name")
_TEXTS_AT_ONCE = 1 << 17


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

    Raises:
        pyarrow.ArrowInvalid: a text is not UTF-8, which not every reader of pyarrow has seen to.
    """
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return number_integers(column.to_numpy())
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    chunks = column.unify_dictionaries().chunks
    words = chunks[0].dictionary
    words = words if words.type in (pa.string(), pa.large_string()) else words.cast(pa.string())
    words.validate(full=True)
    used = np.zeros(len(words), dtype=np.bool_)
    for chunk in chunks:
        used[np.asarray(chunk.indices)] = True
    order = text_order(words)
    order = order[used[order]]
    rank = np.zeros(len(words), dtype=np.int32)
    rank[order] = np.arange(order.size, dtype=np.int32)
    codes = np.empty(len(column), dtype=np.int32)
    start = 0
    for chunk in chunks:
        codes[start : start + len(chunk)] = rank[np.asarray(chunk.indices)]
        start += len(chunk)
    return Numbered(codes=codes, ids=_texts(words, order))


def _texts(words: Any, order: NDArray[np.int64]) -> NDArray[np.str_]:
    """Texts of a pyarrow array in an order; a part at a time, since objects take several times as much."""
    import pyarrow.compute as pc

    longest = max(int(pc.max(pc.utf8_length(words)).as_py()), 1)
    found = np.empty(order.size, dtype=f"<U{longest}")
    for start in range(0, order.size, _TEXTS_AT_ONCE):
        part = slice(start, start + _TEXTS_AT_ONCE)
        found[part] = words.take(order[part]).to_pylist()
    return found


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
    some = raw if kept.all() else _some(raw, kept)
    return replace(some, values=np.ones_like(some.values), repeats=True)


def title_field(names: Sequence[str]) -> str | None:
    """Which of the columns of a list of items holds their titles, by its name; None: none does."""
    plain = [name.partition(":")[0] for name in names]
    best = [name for wanted in _TITLES for name in plain if name == wanted or name.endswith(f"_{wanted}")]
    return None if not best else names[plain.index(best[0])]


def require_ids(raw: RawColumns) -> RawColumns:
    """The same, where no id is an empty text.

    Raises:
        InputError: one is; names its row.
    """
    for role, column in (("user", raw.users), ("item", raw.items)):
        if column.ids.dtype.kind == "U" and column.ids[0] == "":
            row = int(np.flatnonzero(column.codes == 0)[0])
            raise InputError(f"{raw.locate(row)}: the {role} id is empty; fill it in or remove the line.")
    return raw


def rated_alone(raw: RawColumns) -> RawColumns:
    """The rows that are a rating: 0 says that somebody has an item and has not rated it.

    Raises:
        InputError: none is.
    """
    kept = raw.values != 0
    if not kept.any():
        raise InputError(
            f"{raw.locate(0)}: this rating and all others are 0; give a file where something is rated."
        )
    return raw if kept.all() else _some(raw, kept)


def _some(raw: RawColumns, kept: BoolArray) -> RawColumns:
    rows = np.flatnonzero(kept)
    return replace(
        raw,
        users=raw.users.only(kept),
        items=raw.items.only(kept),
        values=raw.values[rows],
        locate=lambda row: raw.locate(int(rows[row])),
        times=None if raw.times is None else raw.times[rows],
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


@contextmanager
def readable(file: StoredFile) -> Iterator[None]:
    """Tell what pyarrow finds wrong with a Parquet file in a sentence.

    Raises:
        InputError: it is none, it is damaged, or a text in it is not UTF-8.
    """
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{file.label} is not a readable Parquet file ({reason}); write it again."
        ) from error
