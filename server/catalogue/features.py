"""Public features of items, such as genre and year of release: columns that say alike of alike items.

Nothing here is read off the ratings. A feature file is public by declaration, as the catalogue is.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.errors import InputError
from fedboard.common.item_features import MOST_FEATURES, CatalogueFeatures
from fedboard.server.catalogue.column_mapping import ColumnMapping, printable
from fedboard.server.catalogue.stored_file import StoredFile, archive, folder
from fedboard.server.catalogue.titles import COLUMNS_20M, OF_1M, OF_20M, OF_100K, layout_of, numbered_lines

FEWEST_ITEMS = 5
"""A label that fewer items of the catalogue carry is a name, not a feature: it is left out."""
TITLES = "titles"
"""In place of a file: year and genre in brackets at the end of the titles that the ratings bring."""
NONE = "none"
"""In place of a file: no features, also where the ratings bring some."""
_FILES = (OF_1M.name, OF_100K.name, OF_20M.name)
_GENRES_100K = (
    *("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama"),
    *("Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War"),
    "Western",
)
_FIRST_GENRE_100K = 5
_ROUNDING = 1e-12
_LARGEST_NUMBER = 1e30
"""Beyond it a cell is a text: boards carry numbers of 32 bits."""
_NO_LABELS = frozenset({"", "(no genres listed)", "unknown"})
_YEAR = re.compile(r"\((\d{4})(?:[-–]\d{4})?(?:, ([^()]+))?\)\s*$")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ItemFeatures:
    """One standardised row per item of the catalogue. Public."""

    names: tuple[str, ...]
    """Shape (n_features,): ``year``, ``genres: Drama`` and so on."""
    values: FloatArray
    """float64, shape (n_items, n_features): each column has mean 0 and standard deviation 1 over the items that
    the source describes; an item that it does not describe has zeros, and so has a cell that is empty."""
    source: str
    """Short name of the file, for the certificate."""
    n_described: int
    """How many items of the catalogue the source describes."""
    table: CatalogueFeatures
    """The same as the source gives it, for the catalogue on the board: what devices read."""


def load_item_features(source: str | Path, item_ids: Sequence[str]) -> ItemFeatures:
    """Read what a public table says about the items of a catalogue.

    MovieLens files give genres and the year in the title. Of any other CSV or TSV file with a header line, the
    item ids are in the column ``item``, ``item_id`` or ``movieId``, else in the first; a column of numbers is
    one feature, any other is a list of labels separated by ``|``, each a feature of its own.

    Args:
        source: ``movies.dat``, ``u.item``, ``movies.csv``, a folder or zip archive with one of them, or a CSV or
            TSV file. Public.
        item_ids: shape (n_items,), as text, in the order of the item numbers. Public.

    Returns:
        Features of the whole catalogue. Labels that fewer than ``FEWEST_ITEMS`` items carry, and columns that
        are the same for all, are left out.

    Raises:
        InputError: unreadable, no item id column, an item twice, none of the items, no or too many features.
    """
    return features_of_file(_find(Path(source)), item_ids)


def features_of_file(file: StoredFile, item_ids: Sequence[str]) -> ItemFeatures:
    """What a table says, as ``load_item_features``.

    Raises:
        InputError: as there.
    """
    return _assemble(file.label, file.base_name, _read(file), list(map(str, item_ids)))


def features_of_titles(titles: Sequence[str] | None, source: str = TITLES) -> ItemFeatures:
    """What the titles say in brackets at their end: ``(1984)`` or ``(1984, mystery)``.

    Raises:
        InputError: there are no titles, or they say nothing.
    """
    if titles is None:
        raise InputError("data.features 'titles' needs titles, and these ratings bring none; give a file.")
    rows = {str(item): {TITLES: title} for item, title in enumerate(titles)}
    return _assemble(f"the {source}", source, rows, list(rows))


def _find(path: Path) -> StoredFile:
    """The table itself, where a folder or archive is named."""
    if not path.exists():
        raise InputError(f"{path} does not exist; give a file of item features.")
    if not path.is_dir() and path.suffix.lower() != ".zip":
        return StoredFile(path=path)
    place = folder(path) if path.is_dir() else archive(path)
    found = next((file for name in _FILES if (file := place.find(name)) is not None), None)
    if found is None:
        raise InputError(f"{path} holds none of {', '.join(_FILES)}; give the path of the table itself.")
    return found


def _read(file: StoredFile) -> dict[str, dict[str, str]]:
    """Item id -> column name -> cell."""
    layout = layout_of(file, ColumnMapping())
    lines = numbered_lines(file, delimiter=layout.delimiter, encodings=layout.encodings)
    if file.base_name == OF_100K.name:
        header: list[str] = ["item", TITLES, "genres"]
        lines = [(number, [*cells[:2], _flagged(cells[_FIRST_GENRE_100K:])]) for number, cells in lines]
    elif layout.mapping is None:
        header = ["item", TITLES, "genres"]
    else:
        header = [name.strip() for name in lines.pop(0)[1]] if lines else []
    key = next((name for name in ("item", "item_id", COLUMNS_20M.item) if name in header), None)
    place = header.index(key) if key is not None else 0
    rows: dict[str, dict[str, str]] = {}
    for number, cells in lines:
        if len(cells) != len(header):
            raise InputError(
                f"{file.label}, line {number}: {len(cells)} columns where {len(header)} are expected."
            )
        item = cells[place].strip()
        if item in rows:
            raise InputError(f"{file.label}, line {number}: item {printable(item)} is there twice.")
        named = zip(header, cells, strict=True)
        rows[item] = {name: cell.strip() for column, (name, cell) in enumerate(named) if column != place}
    return rows


def _flagged(flags: Sequence[str]) -> str:
    return "|".join(genre for genre, flag in zip(_GENRES_100K, flags, strict=False) if flag.strip() == "1")


def _assemble(
    label: str, source: str, rows: Mapping[str, Mapping[str, str]], item_ids: Sequence[str]
) -> ItemFeatures:
    """Number, one-hot and standardise over the catalogue."""
    described = [item for item in item_ids if item in rows]
    if not described:
        raise InputError(f"{label} describes none of the items; its item ids must be those of the ratings.")
    columns = [
        column
        for name in dict.fromkeys(name for item in described for name in rows[item])
        for column in _features(name, [rows[item].get(name, "") for item in described])
    ]
    raw = np.array([column.values for column in columns], dtype=np.float64).reshape(-1, len(described))
    centred = raw - np.nanmean(raw, axis=1, keepdims=True)
    spread = np.sqrt(np.nanmean(centred**2, axis=1, keepdims=True))
    varied = spread[:, 0] > _ROUNDING * np.nanmax(np.abs(raw), axis=1)
    kept = [column for column, varies in zip(columns, varied, strict=True) if varies]
    if not 1 <= len(kept) <= MOST_FEATURES:
        raise InputError(
            f"{label} gives {len(kept)} features that tell items apart; it must be 1 to {MOST_FEATURES}, keep "
            "columns of numbers and of labels that several items share."
        )
    place = {item: number for number, item in enumerate(item_ids)}
    numbers = [place[item] for item in described]
    values = np.zeros((len(item_ids), len(kept)))
    values[numbers] = np.nan_to_num(centred[varied] / spread[varied]).T
    return ItemFeatures(
        names=tuple(column.name for column in kept),
        values=values,
        source=source,
        n_described=len(described),
        table=_table(kept, numbers, len(item_ids)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """One feature of the described items."""

    name: str
    values: list[float]
    is_label: bool


def _table(columns: Sequence[_Column], described: list[int], n_items: int) -> CatalogueFeatures:
    """What the columns say of the whole catalogue."""
    numbers = [column for column in columns if not column.is_label]
    labels = [column for column in columns if column.is_label]
    told = np.full((n_items, len(numbers)), np.nan, dtype=np.float32)
    borne = np.zeros((n_items, len(labels)), dtype=np.uint8)
    for of_kind, cells in ((numbers, told), (labels, borne)):
        for place, column in enumerate(of_kind):
            cells[described, place] = column.values
    return CatalogueFeatures(
        number_names=tuple(column.name for column in numbers),
        numbers=told,
        label_names=tuple(column.name for column in labels),
        labels=borne,
    )


def _features(name: str, cells: Sequence[str]) -> list[_Column]:
    """The features of one column: a number, a title's year and genre, or one for each label."""
    if name in (TITLES, "title"):
        found = [_YEAR.search(cell) for cell in cells]
        years = [math.nan if match is None else float(match[1]) for match in found]
        genres = ["" if match is None else match[2] or "" for match in found]
        return [*_number_column("year", years), *_labels("genre", genres)]
    numbers = [_number(cell) for cell in cells]
    if all(number is not None for number in numbers):
        return _number_column(name, [math.nan if number is None else number for number in numbers])
    return _labels(name, cells)


def _number_column(name: str, values: list[float]) -> list[_Column]:
    """Nothing where every cell is empty."""
    empty = all(math.isnan(value) for value in values)
    return [] if empty else [_Column(name=name, values=values, is_label=False)]


def _labels(name: str, cells: Sequence[str]) -> list[_Column]:
    carried = [{label.strip() for label in cell.split("|")} - _NO_LABELS for cell in cells]
    counts = Counter(label for labels in carried for label in labels)
    kept = sorted(label for label, count in counts.items() if count >= FEWEST_ITEMS)
    return [
        _Column(name=f"{name}: {label}", values=[float(label in labels) for labels in carried], is_label=True)
        for label in kept
    ]


def _number(cell: str) -> float | None:
    """The number in a cell, NaN for an empty one, None for a text."""
    if not cell:
        return math.nan
    try:
        number = float(cell)
    except ValueError:
        return None
    return None if abs(number) > _LARGEST_NUMBER else number
