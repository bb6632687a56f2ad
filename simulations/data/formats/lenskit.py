"""LensKit's saved data sets: ``schema.json`` and a Parquet table for each kind of entity and relation.

Layout: lenskit.org, "Data Model", and ``DataContainer.save``: ``user.parquet`` and ``item.parquet`` with the ids
(``user_id``, ``item_id``) and attributes, ``rating.parquet`` with ``user_num`` and ``item_num``, which count the
rows of those, ``rating`` and perhaps ``timestamp``.
"""

import json
import re
from functools import partial

from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import printable
from fedboard.server.catalogue.stored_file import Place, StoredFile
from fedboard.simulations.data.formats.parquet import column, id_of, kinds_of, rating_of, when_of
from fedboard.simulations.data.formats.text import title_field
from fedboard.simulations.data.reader import Asked, Column, Reader, Rows, Table, by_name, plain_columns
from fedboard.simulations.data.workbench import Workbench, workbench

_SCHEMA = "schema.json"
_NAME = re.compile(r"\w{1,100}")
_RATING, _TIME = "rating", "timestamp"


def _relation(file: StoredFile) -> str:
    """The table of ratings that the schema names.

    Raises:
        InputError: it is no such schema, or names none.
    """
    with file.open() as stream:
        content = stream.read(1 << 20)
    try:
        schema = json.loads(content)
        relations = schema["relationships"]
        of_pairs = [name for name, each in relations.items() if set(each["entities"]) == {"user", "item"}]
        chosen = schema.get("default_interaction")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{file.label} is no schema of a LensKit data set; give the folder of one."
        ) from error
    name = chosen if chosen in of_pairs else next(iter(of_pairs), None)
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InputError(f"{file.label} names no table of users and items; give a data set that has ratings.")
    return name


def _opened(bench: Workbench, stored: StoredFile, wanted: list[str]) -> tuple[str, dict[str, str]]:
    """A table beside the schema, for SQL, and the kinds of its columns.

    Raises:
        InputError: the table or a column is not there.
    """
    path = bench.path(stored)
    kinds = kinds_of(bench, stored, path)
    for name in wanted:
        if name not in kinds:
            found = ", ".join(map(printable, kinds))
            raise InputError(f"{stored.label}: there is no column {name!r}, only {found}.")
    return f"read_parquet({path})", kinds


def _read(file: StoredFile, asked: Asked) -> Rows:
    """The ratings."""
    stored = file.beside(f"{_relation(file)}.parquet")
    return Rows(
        read=partial(_table, file=file, stored=stored, timed=asked.times),
        locate=lambda row: f"{stored.label}, row {row + 1}",
        broken=lambda reason: f"{stored.label} is not a readable Parquet file ({reason}); write it again.",
        repeats=asked.times,
    )


def _table(bench: Workbench, file: StoredFile, stored: StoredFile, timed: bool) -> Table:
    """Ratings with the ids that their numbers count."""
    wanted = ["user_num", "item_num", _RATING, *([_TIME] if timed else [])]
    ratings, kinds = _opened(bench, stored, wanted)
    cells, joins = [f"{rating_of(stored, _RATING, kinds)} AS rating", "place", "user_num", "item_num"], ""
    if timed:
        cells.append(f"{when_of(stored, _TIME, kinds)} AS given")
    columns = plain_columns(timed=timed)
    for entity in ("user", "item"):
        listed = file.beside(f"{entity}.parquet")
        table, its_kinds = _opened(bench, listed, [f"{entity}_id"])
        entity_id = id_of(listed, f"{entity}_id", its_kinds)
        ids = f"SELECT {entity_id} AS id, row_number() OVER () - 1 AS number FROM {table}"
        joins += f" LEFT JOIN ({ids}) AS {entity}s ON {entity}s.number = {entity}_num"
        columns[f"{entity}_id"] = Column(
            name=f"{entity}_num",
            cell=f"{entity}_num::VARCHAR",
            value=f"{entity}s.id",
            wrong=f"counts no row of {entity}.parquet that has an id",
        )
    numbered = f"SELECT *, row_number() OVER () AS place FROM {ratings}"
    relation = f"(SELECT {', '.join(cells)} FROM ({numbered})) AS relation"
    return Table(source=f"{relation}{joins} ORDER BY place", columns=columns)


def _titles(file: StoredFile, place: Place) -> dict[str, str] | None:
    """The items that ``item.parquet`` lists, with a title where it has one."""
    stored = file.beside("item.parquet")
    with workbench() as bench:
        table, kinds = _opened(bench, stored, ["item_id"])
        title = title_field(list(kinds))
        text = "''" if title is None else f"coalesce({column(title)}::VARCHAR, '')"
        return dict(bench.query(f"SELECT item_id::VARCHAR, {text} FROM {table}"))


READERS = (
    Reader(
        name="lenskit",
        what="a data set that LensKit has saved, with ratings",
        given_as="the folder, or its `schema.json`, with `data.rating_range`",
        read=_read,
        recognises=by_name(_SCHEMA),
        times=True,
        file_name=_SCHEMA,
        titles_of=_titles,
    ),
)
