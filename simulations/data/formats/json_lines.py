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
from functools import partial
from typing import Any

import msgspec

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.data.formats.tables import require_one
from fedboard.simulations.data.formats.text import first_line, require_columns, time_of
from fedboard.simulations.data.reader import (
    Asked,
    Column,
    Looks,
    Reader,
    Rows,
    Table,
    Which,
    by_name,
    rows_of_records,
)
from fedboard.simulations.data.workbench import Workbench, quoted

_YELP = ColumnMapping(user="user_id", item="business_id", rating="stars", time="date")
_GOODREADS = ColumnMapping(user="user_id", item="book_id", rating="rating", time="date_added")
_ENDINGS = (".jsonl", ".ndjson")
_LARGEST_OBJECT = 1 << 24
_WHOLE = "('BIGINT', 'UBIGINT')"
_MAIL = "%a %b %d %H:%M:%S %z %Y"
"""As Goodreads writes a time: ``Fri Aug 25 13:55:02 -0700 2017``."""


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


def _look(file: StoredFile, wanted: ColumnMapping) -> None:
    """See that the first line has what is wanted."""
    require_columns(f"{file.label}, line 1", list(_fields(first_line(file))), wanted)


def _read_any(file: StoredFile, asked: Asked) -> Rows:
    """Read a file whose fields are named by whoever loads it."""
    _look(file, asked.mapping)
    return _rows(file, asked.mapping)


def _read(file: StoredFile, asked: Asked, mapping: ColumnMapping) -> Rows:
    """Read one of those published. The latest review of a pair counts, so times are always read."""
    require_one(file, asked)
    which = Which.RATED if mapping is _GOODREADS else Which.ALL
    return _rows(file, mapping, which=which, repeats=True)


def _rows(
    file: StoredFile, mapping: ColumnMapping, *, which: Which = Which.ALL, repeats: bool = False
) -> Rows:
    return rows_of_records(
        partial(_table, file=file, mapping=mapping),
        partial(_lines, file),
        _fault,
        what=f"{file.label} cannot be read as JSON lines",
        which=which,
        repeats=repeats,
    )


def _table(bench: Workbench, file: StoredFile, mapping: ColumnMapping) -> Table:
    """Every field as JSON, so that a number is not a text; ids are of the kinds of the first line."""
    names = {"user_id": mapping.user, "item_id": mapping.item, "rating": mapping.rating}
    names |= {} if mapping.time is None else {"given": mapping.time}
    kinds = ", ".join(f"{quoted(name)}: 'JSON'" for name in dict.fromkeys(names.values()))
    first, columns = _fields(first_line(file)), dict[str, Column]()
    for role, name in names.items():
        field = f'"{name.replace(chr(34), chr(34) * 2)}"'
        text = f"{field}->>'$'"
        if role == "rating":
            value, wrong = _number(field, "FLOAT"), "is not a number"
        elif role == "given":
            value, wrong = _time(field), "is no time"
        elif isinstance(first.get(name), int):
            value = _if_kind(field, _WHOLE, f"try_cast({text} AS BIGINT)")
            wrong = "is not a whole number of 64 bits, as in the first line"
        else:
            value, wrong = _if_kind(field, "('VARCHAR')", text), "is not a text, as in the first line"
        told = role.replace("_", " ") if role != "given" else "time"
        columns[role] = Column(name=told, cell=text, value=value, wrong=wrong)
    source = (
        f"read_json({bench.path(file)}, format = 'newline_delimited', auto_detect = false, "
        f"columns = {{{kinds}}}, maximum_object_size = {_LARGEST_OBJECT})"
    )
    return Table(source=source, columns=columns)


def _if_kind(field: str, kinds: str, value: str) -> str:
    return f"CASE WHEN json_type({field}) IN {kinds} THEN {value} END"


def _number(field: str, kind: str) -> str:
    return _if_kind(field, "('BIGINT', 'UBIGINT', 'DOUBLE')", f"try_cast({field}->>'$' AS {kind})")


def _time(field: str) -> str:
    text = f"{field}->>'$'"
    whole = _if_kind(field, _WHOLE, f"try_cast({text} AS BIGINT)")
    mail = f"floor(epoch(try_strptime({text}, '{_MAIL}')))::BIGINT"
    told = _if_kind(field, "('VARCHAR')", f"coalesce({mail}, {time_of(text)})")
    return f"coalesce({whole}, floor({_number(field, 'DOUBLE')})::BIGINT, {told})"


def _lines(file: StoredFile) -> Iterator[tuple[str, bytes]]:
    """Those that are not empty, each after its place."""
    with file.open() as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield f"{file.label}, line {number}", line


def _fault(line: bytes) -> str | None:
    """Why a line is no row, or None."""
    try:
        msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        return f"it is no object of JSON ({error})"
    return None


READERS = (
    *(
        Reader(
            name=name,
            what=what,
            given_as=f"the folder, or `{file_name}`",
            read=partial(_read, mapping=mapping),
            recognises=partial(_recognises, mapping=mapping),
            rating_range=(1.0, 5.0),
            times=True,
            file_name=file_name,
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
        recognises=by_name(*_ENDINGS),
        times=True,
        generic=True,
        columns=_look,
    ),
)
