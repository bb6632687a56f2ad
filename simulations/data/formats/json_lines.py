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

from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.simulations.data.formats.tables import require_one
from fedboard.simulations.data.formats.text import first_line, require_columns, time_of
from fedboard.simulations.data.reader import Asked, Looks, Reader, Rows, Which, rows_of_records
from fedboard.simulations.data.splits.times import is_mail_time, is_time
from fedboard.simulations.data.workbench import Workbench, quoted

_YELP = ColumnMapping(user="user_id", item="business_id", rating="stars", time="date")
_GOODREADS = ColumnMapping(user="user_id", item="book_id", rating="rating", time="date_added")
_ENDINGS = (".jsonl", ".ndjson")
_LARGEST_OBJECT = 1 << 24
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


def _recognises_any(looks: Looks) -> bool:
    """By its ending."""
    return looks.file.suffix in _ENDINGS


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
    kinds: dict[str, type] = {}
    return rows_of_records(
        partial(_select, file=file, mapping=mapping),
        partial(_lines, file),
        partial(_fault, mapping=mapping, kinds=kinds),
        what=f"{file.label} cannot be read as JSON lines",
        which=which,
        repeats=repeats,
    )


def _select(bench: Workbench, file: StoredFile, mapping: ColumnMapping) -> str:
    """Every field as JSON, so that a number is not a text; ids are of the kinds of the first line."""
    names = {"user": mapping.user, "item": mapping.item, "rating": mapping.rating}
    names |= {} if mapping.time is None else {"time": mapping.time}
    columns = ", ".join(f"{quoted(name)}: 'JSON'" for name in dict.fromkeys(names.values()))
    first = _fields(first_line(file))
    cells = {role: f'"{name.replace(chr(34), chr(34) * 2)}"' for role, name in names.items()}
    found = [
        f"{_id(cells[role], whole=isinstance(first.get(names[role]), int))} AS {role}_id"
        for role in ("user", "item")
    ]
    found.append(f"{_number(cells['rating'], 'FLOAT')} AS rating")
    if mapping.time is not None:
        found.append(f"{_time(cells['time'])} AS given")
    return (
        f"SELECT {', '.join(found)} FROM read_json({bench.path(file)}, format = 'newline_delimited', "
        f"auto_detect = false, columns = {{{columns}}}, maximum_object_size = {_LARGEST_OBJECT})"
    )


def _id(cell: str, *, whole: bool) -> str:
    if whole:
        return (
            f"CASE WHEN json_type({cell}) IN ('BIGINT', 'UBIGINT') THEN try_cast({cell}->>'$' AS BIGINT) END"
        )
    return f"CASE WHEN json_type({cell}) = 'VARCHAR' THEN {cell}->>'$' END"


def _number(cell: str, kind: str) -> str:
    numbers = "('BIGINT', 'UBIGINT', 'DOUBLE')"
    return f"CASE WHEN json_type({cell}) IN {numbers} THEN try_cast({cell}->>'$' AS {kind}) END"


def _time(cell: str) -> str:
    text = f"{cell}->>'$'"
    whole = f"CASE WHEN json_type({cell}) IN ('BIGINT', 'UBIGINT') THEN try_cast({text} AS BIGINT) END"
    mail = f"floor(epoch(try_strptime({text}, '{_MAIL}')))::BIGINT"
    told = f"CASE WHEN json_type({cell}) = 'VARCHAR' THEN coalesce({mail}, {time_of(text)}) END"
    return f"coalesce({whole}, floor({_number(cell, 'DOUBLE')})::BIGINT, {told})"


def _lines(file: StoredFile) -> Iterator[tuple[str, str]]:
    """Those that are not empty, each after its place."""
    with file.open() as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield f"{file.label}, line {number}", line.decode("utf-8", errors="replace")


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
        if cell == "":
            return f"the {role} id is empty"
        if not isinstance(cell, str | int) or isinstance(cell, bool):
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
    told = isinstance(when, str) and (is_time(when) or is_mail_time(when))
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
        recognises=_recognises_any,
        times=True,
        generic=True,
        columns=_look,
    ),
)
