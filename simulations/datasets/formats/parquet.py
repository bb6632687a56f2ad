"""Parquet files, their columns named by a mapping."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fedboard.common.arrays import Float32Array, IntArray
from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns, number_arrow_column, require_columns
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.splits.times import times_of_arrow

_MAGIC = b"PAR1"


def _recognises(looks: Looks) -> bool:
    """By its ending or its first bytes."""
    return looks.file.suffix == ".parquet" or looks.head.startswith(_MAGIC)


def _read(file: StoredFile, asked: Asked) -> RawColumns:
    """Read the three columns of a Parquet file; ids are integers or text, ratings any numbers.

    Raises:
        InputError: no Parquet file, a missing column, a column of the wrong type, an empty cell, no rows.
    """
    mapping = asked.mapping

    def locate(row: int) -> str:
        return f"{file.label}, row {row + 1}"

    table = _arrow_table(file, mapping)
    if table.num_rows == 0:
        raise InputError(f"{file.label} has columns but no ratings; give a file with at least one rating.")
    for name in _names(mapping):
        column = table.column(name)
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise InputError(f"{locate(row)}: {name!r} is empty; fill it in or remove the row.")
    values = values_of(file, table, mapping.rating)
    users, items = (_ids(file, table, name) for name in (mapping.user, mapping.item))
    return RawColumns(
        users=users, items=items, values=values, locate=locate, times=times_of(file, table, mapping.time)
    )


def _names(mapping: ColumnMapping) -> list[str]:
    """The columns to read."""
    timed = [] if mapping.time is None else [mapping.time]
    return [mapping.user, mapping.item, mapping.rating, *timed]


def values_of(file: StoredFile, table: Any, name: str) -> Float32Array:
    """The ratings of a column.

    Raises:
        InputError: they are no numbers.
    """
    import pyarrow as pa

    try:
        values: Float32Array = table.column(name).cast(pa.float32(), safe=False).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(
            f"{file.label}: the ratings in {name!r} are {table.column(name).type}, not numbers; convert the column."
        ) from error
    return values


def times_of(file: StoredFile, table: Any, name: str | None) -> IntArray | None:
    """When, if a column is named.

    Raises:
        InputError: the column holds no times.
    """
    if name is None:
        return None
    times = times_of_arrow(table.column(name))
    if times is None:
        raise InputError(
            f"{file.label}: the times in {name!r} are {table.column(name).type}; they must be "
            "numbers, dates or timestamps, convert the column."
        )
    return times


def _arrow_table(file: StoredFile, mapping: ColumnMapping) -> Any:
    """The wanted columns as a ``pyarrow.Table``."""
    from pyarrow import parquet as arrow_parquet

    with file.open() as stream, readable(file):
        opened = arrow_parquet.ParquetFile(stream)
        require_columns(file.label, opened.schema_arrow.names, mapping)
        return opened.read(columns=_names(mapping))


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


def _ids(file: StoredFile, table: Any, name: str) -> Any:
    """Numbered ids of one column.

    Raises:
        InputError: ids that are neither whole numbers nor text.
    """
    import pyarrow as pa

    kind = table.column(name).type
    content = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_integer(content) or pa.types.is_string(content) or pa.types.is_large_string(content)):
        raise InputError(
            f"{file.label}: the ids in {name!r} are {kind}; they must be whole numbers or text, "
            "convert the column."
        )
    with readable(file):
        return number_arrow_column(table.column(name))


READERS = (
    Reader(
        name="parquet",
        what="any Parquet table",
        given_as="the file, with `data.columns` and `data.rating_range`",
        read=_read,
        recognises=_recognises,
        times=True,
        generic=True,
        needs_pyarrow=True,
    ),
)
