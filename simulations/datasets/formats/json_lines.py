"""Ratings as JSON lines, an object each: Yelp's reviews, Goodreads' interactions, and any such file.

Layouts: business.yelp.com/data (``yelp_academic_dataset_review.json``: review_id, user_id, business_id, stars,
useful, funny, cool, text, date) and the UCSD Book Graph, mengtingwan.github.io/data/goodreads
(``goodreads_interactions_*.json``: user_id, book_id, review_id, is_read, rating, review_text_incomplete,
date_added, date_updated, read_at, started_at; ``goodreads_reviews_*.json`` without is_read).

Who has written several reviews of one business has rated it by the latest. Goodreads' rating of 0 says that a book
was shelved and not rated: no row.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import IO, Any

from fedboard.common.arrays import IntArray
from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.datasets.columns import (
    RawColumns,
    number_arrow_column,
    rated_alone,
    require_columns,
    require_ids,
)
from fedboard.simulations.datasets.formats.blocks import Block, Blocks, Rows
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.formats.text import BLOCK_BYTES, first_line, gathered
from fedboard.simulations.datasets.splits.times import is_time, times_of_arrow, times_of_words

_YELP = ColumnMapping(user="user_id", item="business_id", rating="stars", time="date")
_GOODREADS = ColumnMapping(user="user_id", item="book_id", rating="rating", time="date_added")
_ENDINGS = (".jsonl", ".ndjson")
_HOURS, _MINUTES = 3600, 60


def _fields(line: str) -> dict[str, Any]:
    """The object of a line; empty for what is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _recognises(looks: Looks, mapping: ColumnMapping) -> bool:
    """By the names of the first line's fields."""
    return {mapping.user, mapping.item, mapping.rating, mapping.time} <= set(_fields(looks.line))


def _recognises_any(looks: Looks) -> bool:
    """By its ending."""
    return looks.file.suffix in _ENDINGS


def _look(file: StoredFile, wanted: ColumnMapping) -> None:
    """See that the first line has what is wanted."""
    require_columns(f"{file.label}, line 1", list(_fields(first_line(file))), wanted)


def _read_any(file: StoredFile, asked: Asked) -> RawColumns:
    """Read a file whose fields are named by whoever loads it.

    Raises:
        InputError: see ``_columns``.
    """
    _look(file, asked.mapping)
    return _columns(file, asked.mapping)


def _blocks_of_any(file: StoredFile, asked: Asked) -> Blocks:
    """The same, a block at a time.

    Raises:
        InputError: see ``_columns``.
    """
    _look(file, asked.mapping)
    return _blocks(file, asked.mapping)


def _read(file: StoredFile, asked: Asked, mapping: ColumnMapping) -> RawColumns:
    """Read one of those published.

    Raises:
        InputError: several files to choose from, or see ``_columns``.
    """
    _require_one(file, asked)
    raw = _columns(file, mapping, repeats=True)
    return rated_alone(raw) if mapping is _GOODREADS else raw


def _blocks_of_published(file: StoredFile, asked: Asked, mapping: ColumnMapping) -> Blocks:
    """The same, a block at a time.

    Raises:
        InputError: several files to choose from, or see ``_columns``.
    """
    _require_one(file, asked)
    return _blocks(file, mapping, repeats=True, rows=Rows.RATED if mapping is _GOODREADS else Rows.ALL)


def _require_one(file: StoredFile, asked: Asked) -> None:
    if len(asked.files) > 1:
        found = ", ".join(one.base_name for one in asked.files)
        raise InputError(f"{file.label} is one of several ({found}); give the path of the one to read.")


def _blocks(
    file: StoredFile, mapping: ColumnMapping, *, repeats: bool = False, rows: Rows = Rows.ALL
) -> Blocks:
    return Blocks(
        blocks=_each_block(file, mapping),
        locate=lambda row: _locate(file, row),
        repeats=repeats,
        rows=rows,
    )


def _each_block(file: StoredFile, mapping: ColumnMapping) -> Iterator[Block]:
    """Block by block, each checked as ``_columns`` checks them all."""
    import pyarrow as pa

    try:
        with file.open() as stream, _opened(stream, _kinds(file, mapping)) as (batches, roles):
            for batch in batches:
                yield _block(file, mapping, _kept(batch, roles))
    except pa.ArrowInvalid as error:
        raise InputError(_explain(file, mapping, str(error))) from error


def _block(file: StoredFile, mapping: ColumnMapping, batch: Any) -> Block:
    if any(column.null_count for column in batch.columns):
        raise InputError(_explain(file, mapping, "a field is missing"))
    times = None if mapping.time is None else times_of_arrow(batch.column("time"))
    if times is None and mapping.time is not None:
        raise InputError(_explain(file, mapping, "there are no times"))
    users, items = batch.column("user"), batch.column("item")
    for column in (users, items):
        column.validate(full=True)  # pyarrow does not see to it that texts of JSON are UTF-8
    return Block(users=users, items=items, values=batch.column("rating").to_numpy(), times=times)


def _columns(file: StoredFile, mapping: ColumnMapping, *, repeats: bool = False) -> RawColumns:
    """The wanted fields of every line, in file order; other fields are not kept.

    Raises:
        InputError: a line is no object with these fields, of these kinds.
    """
    import pyarrow as pa

    try:
        table = _arrow_table(file, mapping)
    except pa.ArrowInvalid as error:
        raise InputError(_explain(file, mapping, str(error))) from error
    if any(column.null_count for column in table.columns):
        raise InputError(_explain(file, mapping, "a field is missing"))
    times = None if mapping.time is None else times_of_arrow(table.column("time"))
    if times is None and mapping.time is not None:
        raise InputError(_explain(file, mapping, "there are no times"))
    try:
        users, items = (number_arrow_column(table.column(role)) for role in ("user", "item"))
    except pa.ArrowInvalid as error:
        raise InputError(_explain(file, mapping, str(error))) from error
    return require_ids(
        RawColumns(
            users=users,
            items=items,
            values=table.column("rating").to_numpy(),
            locate=lambda row: _locate(file, row),
            times=times,
            repeats=repeats,
        )
    )


def _arrow_table(file: StoredFile, mapping: ColumnMapping) -> Any:
    """The columns user, item, rating and perhaps time as a ``pyarrow.Table``."""
    with file.open() as stream, _opened(stream, _kinds(file, mapping)) as (batches, roles):
        return gathered(_kept(batch, roles) for batch in batches)


def _kinds(file: StoredFile, mapping: ColumnMapping) -> dict[str, tuple[str, Any]]:
    """Role to the name of its field and what it is read as, by the first line."""
    names = {"user": mapping.user, "item": mapping.item, "rating": mapping.rating, "time": mapping.time}
    first = _fields(first_line(file))
    return {role: (name, _kind(role, first.get(name))) for role, name in names.items() if name is not None}


@contextmanager
def _opened(
    stream: IO[bytes], kinds: dict[str, tuple[str, Any]]
) -> Iterator[tuple[Iterator[Any], tuple[str, ...]]]:
    """The wanted fields, batch by batch, and the role of each."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    read = arrow_json.ReadOptions(block_size=BLOCK_BYTES)
    parse = arrow_json.ParseOptions(
        explicit_schema=pa.schema(list(kinds.values())),
        unexpected_field_behavior="ignore",
    )
    with arrow_json.open_json(stream, read_options=read, parse_options=parse) as batches:
        yield batches, tuple(kinds)


def _kind(role: str, cell: object) -> Any:
    """What to read a field as, by that of the first line."""
    import pyarrow as pa

    if role == "rating":
        return pa.float64()
    whole = isinstance(cell, int) and not isinstance(cell, bool)
    return (
        pa.int64() if whole else pa.float64() if isinstance(cell, float) and role == "time" else pa.string()
    )


def _kept(block: Any, roles: tuple[str, ...]) -> Any:
    """One block, each text once, ratings and times as numbers."""
    import pyarrow as pa

    columns = []
    for role, column in zip(roles, block.columns, strict=True):
        if role == "rating":
            columns.append(column.cast(pa.float32(), safe=False))
        elif role == "time" and pa.types.is_string(column.type) and not column.null_count:
            columns.append(pa.array(_times(column)))
        else:
            columns.append(column.dictionary_encode() if pa.types.is_string(column.type) else column)
    return pa.record_batch(columns, names=list(roles))


def _times(column: Any) -> IntArray:
    """Seconds of dates as ISO 8601 or as ``Fri Aug 25 13:55:02 -0700 2017`` has them."""
    import pyarrow as pa

    found = times_of_words(column)
    if found is None:
        raise pa.ArrowInvalid("a time is none")
    return found


def _objects(file: StoredFile) -> Iterator[tuple[int, str]]:
    with file.open() as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield number, line.decode("utf-8", errors="replace")


def _locate(file: StoredFile, row: int) -> str:
    """File and line of object ``row`` (from 0), by reading up to it."""
    number, _ = next(islice(_objects(file), row, None))
    return f"{file.label}, line {number}"


def _explain(file: StoredFile, mapping: ColumnMapping, reason: str) -> str:
    """The message for a file that the fast pass refused, from a pass that looks at each line."""
    kinds: dict[str, type] = {}
    for number, line in _objects(file):
        fault = _fault(line, mapping, kinds)
        if fault is not None:
            return f"{file.label}, line {number}: {fault}; correct or remove the line."
    return f"{file.label} cannot be read as JSON lines ({' '.join(reason.split())}); correct the file."


def _fault(line: str, mapping: ColumnMapping, kinds: dict[str, type]) -> str | None:
    """What is wrong with one line, or None; ids must be of the kinds that they were before."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return "it is no JSON"
    if not isinstance(found, dict):
        return "it is no object"
    for role, name in (("user", mapping.user), ("item", mapping.item)):
        cell = found.get(name)
        if not isinstance(cell, str | int) or isinstance(cell, bool) or cell == "":
            return f"the {role} id {name!r} is missing"
        if isinstance(cell, str) and not _is_text(cell):
            return f"the {role} id {name!r} is not UTF-8 text"
        if kinds.setdefault(role, type(cell)) is not type(cell):
            return f"the {role} id {name!r} is a text in some lines and a number in others"
        if isinstance(cell, int) and abs(cell) >= 2**63:
            return f"the {role} id {name!r} is too large a number"
    rating = found.get(mapping.rating)
    if not isinstance(rating, int | float) or isinstance(rating, bool):
        return f"the rating {mapping.rating!r} is not a number"
    if mapping.time is None:
        return None
    when = found.get(mapping.time)
    told = isinstance(when, str) and (is_time(when) or times_of_words([when]) is not None)
    told = told or (isinstance(when, int | float) and not isinstance(when, bool))
    return None if told else f"the time {mapping.time!r} is none"


def _is_text(cell: str) -> bool:
    return "\ufffd" not in cell and not any("\ud800" <= letter <= "\udfff" for letter in cell)


READERS = (
    *(
        Reader(
            name=name,
            what=what,
            given_as=f"the folder, or `{file_name}`",
            read=partial(_read, mapping=mapping),
            blocks=partial(_blocks_of_published, mapping=mapping),
            recognises=partial(_recognises, mapping=mapping),
            rating_range=(1.0, 5.0),
            times=True,
            file_name=file_name,
            needs_pyarrow=True,
        )
        for name, what, file_name, mapping in (
            ("yelp", "Yelp's reviews", "yelp_academic_dataset_review.json", _YELP),
            (
                "goodreads",
                "Goodreads' interactions (UCSD Book Graph)",
                "goodreads_interactions*.json",
                _GOODREADS,
            ),
        )
    ),
    Reader(
        name="jsonl",
        what="any file of JSON lines, an object each",
        given_as="the `.jsonl` or `.ndjson`, with `data.columns` and `data.rating_range`",
        read=_read_any,
        blocks=_blocks_of_any,
        recognises=_recognises_any,
        times=True,
        generic=True,
        columns=_look,
        needs_pyarrow=True,
    ),
)
