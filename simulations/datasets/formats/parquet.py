"""Parquet files, their columns named by a mapping; of a folder all that Spark calls a part, as one table."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedboard.common.arrays import Float32Array, IntArray
from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns, number_arrow_column, readable, require_columns
from fedboard.simulations.datasets.formats.blocks import Block, Blocks
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.splits.times import times_of_arrow

_MAGIC = b"PAR1"
_ROWS_AT_ONCE = 1 << 17
_BYTES_AT_ONCE = 1 << 20
"""Of a column: a row group may be larger than memory."""


def _recognises(looks: Looks) -> bool:
    """By its ending or its first bytes."""
    return looks.file.suffix == ".parquet" or looks.head.startswith(_MAGIC)


def _read(file: StoredFile, asked: Asked) -> RawColumns:
    """Read the three columns of a Parquet file; ids are integers or text, ratings any numbers.

    Raises:
        InputError: no Parquet file, a missing column, a column of the wrong type, an empty cell, no rows.
    """
    if len(asked.files) > 1:
        return _read_parts(asked)
    mapping = asked.mapping

    def locate(row: int) -> str:
        return f"{file.label}, row {row + 1}"

    table = _arrow_table(file, mapping)
    if table.num_rows == 0:
        raise InputError(f"{file.label} has columns but no ratings; give a file with at least one rating.")
    for name in _names(mapping):
        _require_filled(file, table.column(name), name, 0)
    values = values_of(file, table, mapping.rating)
    users, items = (_ids(file, table, name) for name in (mapping.user, mapping.item))
    return RawColumns(
        users=users, items=items, values=values, locate=locate, times=times_of(file, table, mapping.time)
    )


def _read_parts(asked: Asked) -> RawColumns:
    """Read several files as one table.

    Raises:
        InputError: as of one, or ids are whole numbers in one and texts in another.
    """
    import pyarrow as pa

    blocks = list(_each_block(asked))
    if not blocks:
        raise InputError(
            f"{asked.files[0].label} and the files beside it have no ratings; give at least one rating."
        )
    times = [block.times for block in blocks if block.times is not None]
    return RawColumns(
        users=number_arrow_column(pa.chunked_array([_alike(block.users) for block in blocks])),
        items=number_arrow_column(pa.chunked_array([_alike(block.items) for block in blocks])),
        values=np.concatenate([block.values for block in blocks]),
        locate=lambda row: _locate(asked.files, row),
        times=np.concatenate(times) if times else None,
    )


def _alike(column: Any) -> Any:
    """Ids as int64 or as dictionary-encoded texts, whatever the file keeps them as."""
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.dictionary(pa.int32(), pa.string()))


def _locate(files: tuple[StoredFile, ...], row: int) -> str:
    """File and row of the row ``row`` of all of them (from 0)."""
    from pyarrow import parquet as arrow_parquet

    for file in files:
        with file.open() as stream, readable(file):
            here = arrow_parquet.ParquetFile(stream).metadata.num_rows
        if row < here:
            return f"{file.label}, row {row + 1}"
        row -= here
    return files[-1].label


def _require_filled(file: StoredFile, column: Any, name: str, first: int) -> None:
    """See that no cell is empty.

    Raises:
        InputError: one is; names its row, counted on from ``first``.
    """
    if column.null_count:
        row = first + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise InputError(f"{file.label}, row {row + 1}: {name!r} is empty; fill it in or remove the row.")


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


def _blocks(file: StoredFile, asked: Asked) -> Blocks:
    """The same, a block at a time."""
    return Blocks(blocks=_each_block(asked), locate=lambda row: _locate(asked.files or (file,), row))


def _each_block(asked: Asked) -> Iterator[Block]:
    """Block by block, each checked as ``_read`` checks them all."""
    first: tuple[bool, bool] | None = None
    for file in asked.files:
        for block in _blocks_of(file, asked.mapping):
            found = _are_numbers(block.users), _are_numbers(block.items)
            if first is not None and found != first:
                raise InputError(
                    f"{file.label}: its ids are whole numbers and those of {asked.files[0].label} texts, or the "
                    "other way round; write all files alike."
                )
            first = found
            yield block


def _are_numbers(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(column.type))


def _blocks_of(file: StoredFile, mapping: ColumnMapping) -> Iterator[Block]:
    """Of one file."""
    from pyarrow import parquet as arrow_parquet

    first = 0
    with file.open() as stream, readable(file):
        opened = arrow_parquet.ParquetFile(stream, pre_buffer=False, buffer_size=_BYTES_AT_ONCE)
        require_columns(file.label, opened.schema_arrow.names, mapping)
        for batch in opened.iter_batches(batch_size=_ROWS_AT_ONCE, columns=_names(mapping)):
            for name in _names(mapping):
                _require_filled(file, batch.column(name), name, first)
            users, items = (_plain_ids(file, batch, name) for name in (mapping.user, mapping.item))
            yield Block(
                users=users,
                items=items,
                values=values_of(file, batch, mapping.rating),
                times=times_of(file, batch, mapping.time),
            )
            first += batch.num_rows


def _plain_ids(file: StoredFile, batch: Any, name: str) -> Any:
    """Ids of one column of a batch, seen to be UTF-8 if they are texts."""
    _require_ids(file, batch, name)
    column = batch.column(name)
    column.validate(full=True)
    return column


def _ids(file: StoredFile, table: Any, name: str) -> Any:
    """Numbered ids of one column.

    Raises:
        InputError: ids that are neither whole numbers nor text.
    """
    _require_ids(file, table, name)
    with readable(file):
        return number_arrow_column(table.column(name))


def _require_ids(file: StoredFile, table: Any, name: str) -> None:
    """See that a column holds whole numbers or text.

    Raises:
        InputError: it does not.
    """
    import pyarrow as pa

    kind = table.column(name).type
    content = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_integer(content) or pa.types.is_string(content) or pa.types.is_large_string(content)):
        raise InputError(
            f"{file.label}: the ids in {name!r} are {kind}; they must be whole numbers or text, "
            "convert the column."
        )


READERS = (
    Reader(
        name="parquet",
        what="any Parquet table",
        given_as="the file, or a folder of `part-*.parquet`, with `data.columns` and `data.rating_range`",
        read=_read,
        blocks=_blocks,
        recognises=_recognises,
        file_name="part-*.parquet",
        times=True,
        generic=True,
        needs_pyarrow=True,
    ),
)
