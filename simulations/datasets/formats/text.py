"""Reading delimited text: a fast pass with pyarrow, and a slow one that names the line at fault."""

import csv
import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import IO, Any

import numpy as np

from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import RawColumns, number_arrow_column, require_ids
from fedboard.simulations.datasets.formats.blocks import Block, Blocks, Rows
from fedboard.simulations.datasets.numbering import Numbered, number_texts
from fedboard.simulations.datasets.splits.times import is_time, is_whole, times_of_arrow

BLOCK_BYTES = 1 << 22
BLOCKS_AT_ONCE = 16
"""Blocks whose texts are put together at a time: fewer take longer, more take more memory."""
LARGEST_NUMBER = 2**31 - 1
# pyarrow splits at single characters: "a::b" is read as three columns, the middle one empty.
DOUBLE_COLON = "::"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """How a text file lays out ratings. Public."""

    delimiter: str
    """One character, or ``::``."""
    columns: tuple[str, ...]
    """Names of all columns, in order."""
    mapping: ColumnMapping
    """Which columns hold user, item and rating, and which says when, if that is wanted."""
    header: bool
    """Whether the first line holds the column names."""
    whole_number_ids: bool
    """Whether ids must be whole numbers; else any text."""
    quoted: bool
    """Whether cells may be quoted, and then contain delimiters and line ends."""
    item_otherwise: str | None = None
    """Column whose text stands for the item where its own cell is empty."""
    any_times: bool = False
    """Whether times may be dates, timestamps and fractions too; else they are whole numbers."""
    repeats: bool = False
    """Whether a pair may occur several times."""
    times_per_second: int = 1
    """In what whole numbers count, such as 1000 where they are milliseconds."""

    def timed(self, asked: bool, name: str) -> "TextLayout":
        """The same, with the column that says when if it is asked for."""
        return replace(self, mapping=replace(self.mapping, time=name)) if asked else self

    @property
    def positions(self) -> tuple[int, int, int]:
        """Where user, item and rating are among the columns."""
        names = self.mapping.user, self.mapping.item, self.mapping.rating
        user, item, rating = (self.columns.index(name) for name in names)
        return user, item, rating


def first_line(file: StoredFile) -> str:
    """The first line without its line end and byte-order mark.

    Raises:
        InputError: the file is empty.
    """
    with file.open() as stream:
        line = stream.readline(1 << 16)
    if not line.strip():
        raise InputError(f"{file.label} is empty or starts with an empty line; give a file with ratings.")
    return line.decode("utf-8-sig", errors="replace").rstrip("\r\n")


def header(file: StoredFile, delimiter: str) -> list[str]:
    """The cells of the first line: the names of the columns.

    Raises:
        InputError: the file is empty, or no text that is cut by that delimiter.
    """
    cells = cells_of(first_line(file), delimiter)
    if not cells:
        raise InputError(f"{file.label}, line 1 is no line of a table; give a file with a header line.")
    return cells


def cells_of(line: str, delimiter: str) -> list[str]:
    """The cells of one line, which may be quoted; none of a line that is no table's."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return []


def read_text(file: StoredFile, layout: TextLayout) -> RawColumns:
    """Read the three columns of a text file, in file order.

    Raises:
        InputError: no ratings, a wrong number of cells, or a cell that is not what the layout says.
    """
    import pyarrow as pa

    time = layout.mapping.time
    names = layout.mapping.user, layout.mapping.item, layout.mapping.rating, time
    try:
        table = _arrow_table(file, layout)
    except pa.ArrowInvalid as error:
        raise InputError(_explain(file, layout, str(error))) from error
    if any(table.column(name).null_count for name in names if name is not None):
        raise InputError(_explain(file, layout, "an empty cell"))
    if table.num_rows == 0:
        raise InputError(f"{file.label} has a header but no ratings; give a file with at least one rating.")
    times = None if time is None else times_of_arrow(table.column(time))
    if times is None and time is not None:
        raise InputError(_explain(file, layout, f"{time} holds no times"))
    values, table = table.column(names[2]).to_numpy(), table.drop_columns([names[2]])
    users, table = number_arrow_column(table.column(names[0])), table.drop_columns([names[0]])
    items = number_arrow_column(table.column(names[1]))
    if layout.item_otherwise is not None and items.ids[0] == "":
        items = _filled(items, table.column(layout.item_otherwise))
    raw = RawColumns(
        users=users,
        items=items,
        values=values,
        locate=lambda row: _locate(file, layout, row),
        times=None if times is None else times // layout.times_per_second,
        repeats=layout.repeats,
    )
    return require_ids(raw)


def _filled(items: Numbered, otherwise: Any) -> Numbered:
    """The items, with the cells of another column where an id is empty: that is number 0, the first of texts."""
    rows = np.flatnonzero(items.codes == 0)
    stand_ins = np.array(otherwise.unify_dictionaries().take(rows).to_pylist(), dtype=np.str_)
    words, places = np.unique(np.append(items.ids[1:], stand_ins), return_inverse=True)
    codes = places[np.maximum(items.codes - 1, 0)].astype(np.int32)
    codes[rows] = places[items.ids.size - 1 :]
    return number_texts(codes, words.tolist())


def text_blocks(file: StoredFile, layout: TextLayout, *, rows: Rows = Rows.ALL) -> Blocks:
    """The rows of a text file, a block at a time.

    Args:
        file: the file.
        layout: of it.
        rows: which of them are ratings.
    """
    return Blocks(
        blocks=_blocks(file, layout),
        locate=lambda row: _locate(file, layout, row),
        repeats=layout.repeats,
        rows=rows,
    )


def _blocks(file: StoredFile, layout: TextLayout) -> Iterator[Block]:
    """Block by block, each checked as ``read_text`` checks them all.

    Raises:
        InputError: a wrong number of cells, or a cell that is not what the layout says.
    """
    import pyarrow as pa

    try:
        with file.open() as stream, _opened(stream, layout) as batches:
            for batch in batches:
                yield _block(file, layout, batch)
    except pa.ArrowInvalid as error:
        raise InputError(_explain(file, layout, str(error))) from error


def _block(file: StoredFile, layout: TextLayout, batch: Any) -> Block:
    mapping = layout.mapping
    names = (mapping.user, mapping.item, mapping.rating, *([] if mapping.time is None else [mapping.time]))
    if any(batch.column(name).null_count for name in names):
        raise InputError(_explain(file, layout, "an empty cell"))
    times = None if mapping.time is None else times_of_arrow(batch.column(mapping.time))
    if times is None and mapping.time is not None:
        raise InputError(_explain(file, layout, f"{mapping.time} holds no times"))
    items = batch.column(mapping.item)
    if layout.item_otherwise is not None:
        items = _stood_in_for(items, batch.column(layout.item_otherwise))
    return Block(
        users=batch.column(mapping.user),
        items=items,
        values=batch.column(mapping.rating).to_numpy(),
        times=None if times is None else times // layout.times_per_second,
    )


def _stood_in_for(items: Any, otherwise: Any) -> Any:
    """The items, with the cells of another column where an id is empty."""
    import pyarrow.compute as pc

    named = items.dictionary_decode()
    return pc.if_else(pc.equal(named, ""), otherwise.dictionary_decode(), named).dictionary_encode()


@contextmanager
def _opened(stream: IO[bytes], layout: TextLayout) -> Iterator[Any]:
    """The wanted columns, batch by batch."""
    from pyarrow import csv as arrow_csv

    with arrow_csv.open_csv(stream, **_options(layout)) as batches:
        yield batches


def _arrow_table(file: StoredFile, layout: TextLayout) -> Any:
    """The wanted columns as a ``pyarrow.Table``."""
    from pyarrow import csv as arrow_csv

    with file.open() as stream:
        if layout.whole_number_ids:
            return arrow_csv.read_csv(stream, **_options(layout))
        with _opened(stream, layout) as batches:
            return gathered(batches, batches.schema)


def _options(layout: TextLayout) -> dict[str, Any]:
    """How pyarrow reads it: the wanted columns; others are skipped unconverted."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    spread = layout.delimiter == DOUBLE_COLON
    gaps = [f"gap {position}" for position in range(len(layout.columns) - 1)] if spread else []
    names = list(layout.columns)
    if spread:
        names = [name for pair in zip(names, [*gaps, ""], strict=True) for name in pair][:-1]
    id_type = pa.int32() if layout.whole_number_ids else pa.dictionary(pa.int32(), pa.string())
    mapping = layout.mapping
    types = {mapping.user: id_type, mapping.item: id_type, mapping.rating: pa.float32()}
    types |= dict.fromkeys(gaps, pa.null())
    if mapping.time is not None and not layout.any_times:
        types[mapping.time] = pa.int64()
    types |= {} if layout.item_otherwise is None else {layout.item_otherwise: id_type}
    read = arrow_csv.ReadOptions(
        block_size=BLOCK_BYTES, column_names=names, skip_rows=1 if layout.header else 0
    )
    parse = arrow_csv.ParseOptions(
        delimiter=layout.delimiter[0],
        quote_char='"' if layout.quoted else False,
        newlines_in_values=layout.quoted and not layout.whole_number_ids,
    )
    convert = arrow_csv.ConvertOptions(
        column_types=types,
        include_columns=list(types) + ([] if mapping.time in {None, *types} else [mapping.time]),
        null_values=[""] if spread else [],
        strings_can_be_null=False,
        quoted_strings_can_be_null=False,
    )
    return {"read_options": read, "parse_options": parse, "convert_options": convert}


def gathered(blocks: Iterable[Any], schema: Any = None) -> Any:
    """All blocks as one table, in which each text is kept once, not once in every block that has it.

    Args:
        blocks: of pyarrow, of one schema.
        schema: theirs, where there may be none.
    """
    import pyarrow as pa

    tables: list[Any] = [] if schema is None else [schema.empty_table()]
    waiting: list[Any] = []
    for block in blocks:
        waiting.append(block)
        if len(waiting) == BLOCKS_AT_ONCE:
            tables.append(_joined([pa.Table.from_batches(waiting)]))
            waiting = []
            # Only what is of like size is put together: else every text would be looked up again for each block.
            while len(tables) > 1 and tables[-2].num_rows <= tables[-1].num_rows:
                tables[-2:] = [_joined(tables[-2:])]
    tables += [pa.Table.from_batches(waiting)] if waiting else []
    return _joined(tables)


def _joined(tables: list[Any]) -> Any:
    """Several as one, each column in one piece."""
    import pyarrow as pa

    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


@contextmanager
def _records(file: StoredFile, layout: TextLayout) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """The data records with the line each ends on; empty lines are skipped, as pyarrow does."""
    with file.open() as stream:
        try:
            yield _numbered_records(stream, layout)
        except csv.Error as error:
            raise InputError(
                f"{file.label} cannot be read as delimited text: {error}; correct it."
            ) from error


def _numbered_records(stream: IO[bytes], layout: TextLayout) -> Iterator[tuple[int, list[str]]]:
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline="")
    if layout.delimiter == DOUBLE_COLON:
        lines = enumerate((line.rstrip("\r\n") for line in text), start=1)
        records = ((number, line.split(DOUBLE_COLON)) for number, line in lines if line)
    else:
        plain = csv.reader(text, delimiter=layout.delimiter, quoting=csv.QUOTE_NONE)
        reader = csv.reader(text, delimiter=layout.delimiter) if layout.quoted else plain
        records = ((reader.line_num, cells) for cells in reader if cells)
    return islice(records, 1 if layout.header else 0, None)


def _locate(file: StoredFile, layout: TextLayout, row: int) -> str:
    """File and line of data row ``row`` (from 0), by reading up to it."""
    with _records(file, layout) as records:
        number, _ = next(islice(records, row, None))
    return f"{file.label}, line {number}"


def _explain(file: StoredFile, layout: TextLayout, reason: str) -> str:
    """The message for a file that the fast pass refused, from a pass that looks at each line."""
    with _records(file, layout) as records:
        for number, cells in records:
            fault = _fault(cells, layout)
            if fault is not None:
                return f"{file.label}, line {number}: {fault}; correct or remove the line."
    return f"{file.label} cannot be read as delimited text ({' '.join(reason.split())}); correct the file."


def _fault(cells: list[str], layout: TextLayout) -> str | None:
    """What is wrong with one record, or None."""
    if len(cells) != len(layout.columns):
        return f"{len(cells)} columns where {len(layout.columns)} are expected"
    user, item, rating = (cells[position] for position in layout.positions)
    item = item or (cells[layout.columns.index(layout.item_otherwise)] if layout.item_otherwise else "")
    for role, cell in (("user", user), ("item", item)):
        if not cell:
            return f"the {role} id is empty"
        if "\ufffd" in cell:
            return f"the {role} id is not UTF-8 text"
        if layout.whole_number_ids and not _is_whole_number(cell):
            return f"{role} id {cell!r} is not a whole number up to {LARGEST_NUMBER}"
    if not rating:
        return "the rating is empty"
    if not _is_number(rating):
        return f"rating {rating!r} is not a number"
    time = layout.mapping.time
    if time is None:
        return None
    when = cells[layout.columns.index(time)]
    if layout.any_times:
        return None if is_time(when) else f"the {time} {when!r} is neither a number nor a date"
    return None if is_whole(when) else f"the {time} is not a whole number"


def _is_whole_number(cell: str) -> bool:
    return is_whole(cell, LARGEST_NUMBER)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell
