"""LensKit's saved data sets: ``schema.json`` and a Parquet table for each kind of entity and relation.

Layout: lenskit.org, "Data Model", and ``DataContainer.save``: ``user.parquet`` and ``item.parquet`` with the ids
(``user_id``, ``item_id``) and attributes, ``rating.parquet`` with ``user_num`` and ``item_num``, which count the
rows of those, ``rating`` and perhaps ``timestamp``.
"""

import json
import re
from typing import Any

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import printable
from fedboard.server.catalogue.stored_file import Place, StoredFile
from fedboard.simulations.datasets.columns import RawColumns, number_arrow_column, readable, title_field
from fedboard.simulations.datasets.formats.parquet import times_of, values_of
from fedboard.simulations.datasets.formats.reader import Asked, Looks, Reader
from fedboard.simulations.datasets.numbering import Numbered

_SCHEMA = "schema.json"
_NAME = re.compile(r"\w{1,100}")
_RATING, _TIME = "rating", "timestamp"


def _recognises(looks: Looks) -> bool:
    """By its name; what it says is looked at when it is read."""
    return looks.file.base_name == _SCHEMA


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


def _table(file: StoredFile, name: str, columns: list[str]) -> Any:
    """Some columns of a table beside the schema, as a ``pyarrow.Table``.

    Raises:
        InputError: the table or a column is not there, or a cell is empty.
    """
    from pyarrow import parquet as arrow_parquet

    stored = file.beside(f"{name}.parquet")
    with stored.open() as stream, readable(stored):
        opened = arrow_parquet.ParquetFile(stream)
        missing = [column for column in columns if column not in opened.schema_arrow.names]
        if missing:
            found = ", ".join(map(printable, opened.schema_arrow.names))
            raise InputError(f"{stored.label}: there is no column {missing[0]!r}, only {found}.")
        table = opened.read(columns=columns)
    if table.num_rows == 0:
        raise InputError(f"{stored.label} is empty; give a data set with users, items and ratings.")
    empty = next((name for name in columns if table.column(name).null_count), None)
    if empty is not None:
        raise InputError(f"{stored.label}: a cell of {empty!r} is empty; fill it in or remove the row.")
    return table


def _read(file: StoredFile, asked: Asked) -> RawColumns:
    """Read the ratings.

    Raises:
        InputError: see ``_relation`` and ``_table``; or a number that counts no entity.
    """
    relation = _relation(file)
    wanted = ["user_num", "item_num", _RATING, *([_TIME] if asked.times else [])]
    table, stored = _table(file, relation, wanted), file.beside(f"{relation}.parquet")
    users, items = (_numbered(file, table, stored, entity) for entity in ("user", "item"))
    return RawColumns(
        users=users,
        items=items,
        values=values_of(stored, table, _RATING),
        locate=lambda row: f"{stored.label}, row {row + 1}",
        times=times_of(stored, table, _TIME if asked.times else None),
        repeats=asked.times,
    )


def _numbered(file: StoredFile, table: Any, stored: StoredFile, entity: str) -> Numbered:
    listed = file.beside(f"{entity}.parquet")
    with readable(listed):
        ids = number_arrow_column(_table(file, entity, [f"{entity}_id"]).column(0))
    numbers: IntArray = np.asarray(table.column(f"{entity}_num").to_numpy(), dtype=np.int64)
    outside = (numbers < 0) | (numbers >= ids.codes.size)
    if outside.any():
        raise InputError(
            f"{stored.label}, row {int(np.argmax(outside)) + 1}: {entity}_num counts no row of {entity}.parquet."
        )
    every = Numbered(codes=ids.codes[numbers], ids=ids.ids)
    return every.only(np.ones(numbers.size, dtype=np.bool_))


def _titles(file: StoredFile, place: Place) -> dict[str, str] | None:
    """The items that ``item.parquet`` lists, with a title where it has one."""
    from pyarrow import parquet as arrow_parquet

    stored = file.beside("item.parquet")
    with stored.open() as stream, readable(stored):
        names = arrow_parquet.ParquetFile(stream).schema_arrow.names
    title = title_field(names)
    listed = _table(file, "item", ["item_id", *([] if title is None else [title])])
    with readable(stored):
        items = listed.column(0).to_pylist()
        texts = [""] * listed.num_rows if title is None else listed.column(1).to_pylist()
    return {str(item): str(text) for item, text in zip(items, texts, strict=True)}


READERS = (
    Reader(
        name="lenskit",
        what="a data set that LensKit has saved, with ratings",
        given_as="the folder, or its `schema.json`, with `data.rating_range`",
        read=_read,
        recognises=_recognises,
        times=True,
        file_name=_SCHEMA,
        titles_of=_titles,
        needs_pyarrow=True,
    ),
)
