"""Formats that are delimited text: MovieLens, Amazon, MSD, Last.fm, RecBole, and any table with a header line.

Layouts: MovieLens 100K ``u.data`` (user, item, rating, time by tabs), 1M and 10M ``ratings.dat``
(``user::item::rating::time``), 20M and later ``ratings.csv``. Amazon reviews, ratings only:
jmcauley.ucsd.edu/data/amazon (2014: user, item, rating, time), nijianmo.github.io/amazon (2018: item, user, rating,
time), amazon-reviews-2023.github.io (a header ``user_id,parent_asin,rating,timestamp``, in milliseconds). Plays:
millionsongdataset.com/tasteprofile (``user song plays`` by tabs), and the README of lastfm-dataset-360K
(``user-mboxsha1, musicbrainz-artist-id, artist-name, plays`` by tabs, the second empty where it is not known; in
some lines a date stands for the user: they are read as one more user). RecBole's atomic files: recbole.io, user
guide, "Atomic Files" (``NAME.inter``, by tabs, a header line of ``field:type``; cells are not quoted).

Plays are read as presence: played or not. They span orders of magnitude and are no ratings on a scale; which counts
stand for a liking is not for a reader to say.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from fedboard.common.errors import InputError
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.stored_file import Place, StoredFile
from fedboard.server.catalogue.titles import COLUMNS_20M, OF_1M, OF_20M, OF_100K, numbered_lines, read_titles
from fedboard.simulations.data.formats.text import (
    TextLayout,
    by_fields,
    first_line,
    header,
    require_columns,
    text_rows,
    title_field,
)
from fedboard.simulations.data.reader import Asked, Looks, Reader, Rows, Which, by_line, by_name

LayoutOf = Callable[[StoredFile, Asked], TextLayout]


def _rows(
    file: StoredFile, asked: Asked, layout_of: LayoutOf, *, which: Which = Which.ALL, repeats: bool = False
) -> Rows:
    """The rows of one file, by its layout."""
    return text_rows(file, layout_of(file, asked), which=which, repeats=repeats)


def require_one(file: StoredFile, asked: Asked) -> None:
    """Of a folder one file is read, where they are not parts of one table.

    Raises:
        InputError: several files to choose from.
    """
    if len(asked.files) > 1:
        found = ", ".join(one.base_name for one in asked.files)
        raise InputError(f"{file.label} is one of several ({found}); give the path of the one to read.")


# MovieLens.

_COLUMNS = ("user", "item", "rating", "time")
_100K_LINE = re.compile(r"\d+\t\d+\t\d+\t\d+")
_1M, _10M = "movielens-1m", "movielens-10m"
_LARGEST_ITEM_ID_1M = 3952


def _headerless(file: StoredFile, asked: Asked, delimiter: str) -> TextLayout:
    return TextLayout(
        delimiter=delimiter,
        columns=_COLUMNS,
        mapping=ColumnMapping(time="time" if asked.times else None),
        whole_number_ids=True,
    )


def _is_100k(looks: Looks) -> bool:
    """By its first line; a table with a header has an ending that says so."""
    return _100K_LINE.fullmatch(looks.line) is not None and looks.file.suffix not in ENDINGS


def _is_it(looks: Looks, name: str) -> bool:
    """Tell 1M (whole stars from 1 to 5) from 10M (half stars) by names and catalogue, never by the ratings.

    Raises:
        InputError: nothing public tells which it is.
    """
    file, place = looks.file, looks.place
    told = f"{place.path.resolve().name}/{file.member or ''}".lower()
    if place.find("users.dat") is not None or "ml-1m" in told:
        return name == _1M
    if "ml-10m" in told:
        return name == _10M
    titles, beside = looks.titles, place.find(OF_1M.name)
    if titles is None and beside is not None:
        titles = read_titles(beside, OF_1M.layout)
    if titles:
        largest = max((int(item) for item in titles if item.isdecimal()), default=0)
        return name == (_1M if largest <= _LARGEST_ITEM_ID_1M else _10M)
    raise InputError(
        f"{file.label} may be MovieLens 1M (ratings 1 to 5) or 10M (0.5 to 5); "
        f"name the format {_1M} or {_10M}, or put {OF_1M.name} beside it."
    )


def _of_20m(file: StoredFile, asked: Asked) -> TextLayout:
    names = header(file, ",")
    wanted = replace(COLUMNS_20M, time="timestamp") if asked.times else COLUMNS_20M
    require_columns(f"{file.label}, line 1", names, wanted)
    return TextLayout(
        delimiter=",", columns=tuple(names), mapping=wanted, header=True, whole_number_ids=True, quoted=True
    )


MOVIELENS = (
    Reader(
        name="movielens-100k",
        what="MovieLens 100K",
        given_as="the folder, the `.zip`, or `u.data`",
        read=partial(_rows, layout_of=partial(_headerless, delimiter="\t")),
        recognises=_is_100k,
        rating_range=(1.0, 5.0),
        times=True,
        file_name="u.data",
        titles=OF_100K,
    ),
    *(
        Reader(
            name=name,
            what=what,
            given_as="the folder, the `.zip`, or `ratings.dat`",
            read=partial(_rows, layout_of=partial(_headerless, delimiter="::")),
            recognises=by_line("(?:(?!::).)*(?:::(?:(?!::).)*){3}"),
            told_apart=partial(_is_it, name=name),
            rating_range=scale,
            times=True,
            file_name="ratings.dat",
            titles=OF_1M,
        )
        for name, what, scale in ((_1M, "MovieLens 1M", (1.0, 5.0)), (_10M, "MovieLens 10M", (0.5, 5.0)))
    ),
    *(
        Reader(
            name=name,
            what=what,
            given_as="the folder, the `.zip`, or `ratings.csv`",
            read=partial(_rows, layout_of=_of_20m),
            recognises=by_fields(COLUMNS_20M.user, COLUMNS_20M.item, COLUMNS_20M.rating),
            rating_range=(0.5, 5.0),
            times=True,
            file_name="ratings.csv",
            titles=OF_20M,
        )
        for name, what in (
            ("movielens-20m", "MovieLens 20M and later"),
            ("movielens-latest", "MovieLens latest"),
        )
    ),
)


# Amazon. The latest review of a pair counts, so times are always read.

_TIME = "timestamp"
_USER_FIRST = ("user", "item", "rating", _TIME)
_ITEM_FIRST = ("item", "user", "rating", _TIME)
_OF_2023 = ColumnMapping(user="user_id", item="parent_asin", rating="rating", time=_TIME)
# An item is ten characters, a book's number or one from B on; a user begins with an A: they never look alike.
_ITEM, _USER, _REST = r"(?:B[0-9A-Z]{9}|[0-9]{9}[0-9X])", r"A[0-9A-Z]{5,30}", r"[1-5](?:\.0)?,[0-9]+"


def _ordered(file: StoredFile, asked: Asked, columns: tuple[str, ...]) -> TextLayout:
    return TextLayout(
        delimiter=",",
        columns=columns,
        mapping=ColumnMapping(time=_TIME),
    )


def _of_2023(file: StoredFile, asked: Asked) -> TextLayout:
    """By its header, whatever other columns it has, such as the history before each rating."""
    names = header(file, ",")
    require_columns(f"{file.label}, line 1", names, _OF_2023)
    return TextLayout(
        delimiter=",",
        columns=tuple(names),
        mapping=_OF_2023,
        header=True,
        quoted=True,
        times_per_second=1000,
    )


def _amazon(year: int, what: str, layout_of: LayoutOf, recognises: Callable[[Looks], bool]) -> Reader:
    return Reader(
        name=f"amazon-{year}",
        what=f"Amazon reviews of {year}, ratings only{what}",
        given_as="the `.csv`",
        read=partial(_rows, layout_of=layout_of, repeats=True),
        recognises=recognises,
        rating_range=(1.0, 5.0),
        times=True,
    )


AMAZON = (
    *(
        _amazon(
            year,
            f": {', '.join(columns)}",
            partial(_ordered, columns=columns),
            by_line(f"{line},{_REST}"),
        )
        for year, columns, line in (
            (2014, _USER_FIRST, f"{_USER},{_ITEM}"),
            (2018, _ITEM_FIRST, f"{_ITEM},{_USER}"),
        )
    ),
    _amazon(2023, ", with a header line", _of_2023, by_fields("user_id", "parent_asin", "rating", _TIME)),
)


# Plays.

_TABS = partial(TextLayout, delimiter="\t")
_MSD = _TABS(columns=("user", "song", "plays"), mapping=ColumnMapping(item="song", rating="plays"))
_LASTFM = _TABS(
    columns=("user", "mbid", "artist", "plays"),
    mapping=ColumnMapping(item="artist", rating="plays"),
    item_otherwise="mbid",
)
_MSD_LINE = r"[0-9a-f]{40}\tSO[0-9A-Z]{16}\t[0-9]+"
_LASTFM_LINE = r"[0-9a-f]{40}\t(?:[0-9a-f-]{36})?\t[^\t]*\t[0-9]+"


def _fixed(file: StoredFile, asked: Asked, layout: TextLayout) -> TextLayout:
    return layout


PLAYS = tuple(
    Reader(
        name=name,
        what=what,
        given_as=f"the folder, the `.zip`, or `{file_name}`",
        read=partial(_rows, layout_of=partial(_fixed, layout=layout), which=Which.USED, repeats=True),
        recognises=by_line(line),
        rating_range=(0.0, 1.0),
        presence=True,
        file_name=file_name,
    )
    for name, what, layout, line, file_name in (
        ("msd", "MSD, the Echo Nest's taste profile", _MSD, _MSD_LINE, "train_triplets.txt"),
        ("lastfm-360k", "Last.fm 360K", _LASTFM, _LASTFM_LINE, "usersha1-artmbid-artname-plays.tsv"),
    )
)


# RecBole. What scale its ratings have it does not say.

_ATOMIC = ColumnMapping(user="user_id:token", item="item_id:token", rating="rating:float")
_ATOMIC_TIME = "timestamp:float"
_FIELD = r"[^\s:]+:(?:token|float)(?:_seq)?"


def _look_atomic(file: StoredFile, wanted: ColumnMapping) -> None:
    """See that the format's own columns are there."""
    require_columns(f"{file.label}, line 1", first_line(file).split("\t"), _ATOMIC)


def _atomic(file: StoredFile, asked: Asked) -> TextLayout:
    require_one(file, asked)
    names, wanted = first_line(file).split("\t"), replace(_ATOMIC, time=_ATOMIC_TIME if asked.times else None)
    require_columns(f"{file.label}, line 1", names, wanted)
    return TextLayout(
        delimiter="\t",
        columns=tuple(names),
        mapping=wanted,
        header=True,
        any_times=True,
    )


def _titles_of_atomic(file: StoredFile, place: Place) -> dict[str, str] | None:
    """What ``NAME.item`` beside the ratings lists, where it has a field of titles."""
    stored = place.find(f"{file.base_name.removesuffix('.inter')}.item")
    if stored is None:
        return None
    lines = numbered_lines(stored, delimiter="\t", encodings=("utf-8-sig",), quoted=False)
    names = lines[0][1] if lines else []
    title = title_field(names)
    if title is None or _ATOMIC.item not in names:
        return None
    item_at, title_at = names.index(_ATOMIC.item), names.index(title)
    for number, cells in lines[1:]:
        if len(cells) != len(names):
            raise InputError(
                f"{stored.label}, line {number}: {len(cells)} fields where {len(names)} are expected; correct it."
            )
    return {cells[item_at]: cells[title_at] for _, cells in lines[1:]}


RECBOLE = Reader(
    name="recbole",
    what="RecBole's atomic files, with ratings",
    given_as="the folder, the `.zip`, or the `.inter`, with `data.rating_range`",
    read=partial(_rows, layout_of=_atomic),
    recognises=by_line(rf"{_FIELD}(?:\t{_FIELD})*"),
    file_name="*.inter",
    titles_of=_titles_of_atomic,
    times=True,
    columns=_look_atomic,
)


# Any table with a header line, its columns named by a mapping.

ENDINGS = {".csv": ("csv", ",", "comma"), ".tsv": ("tsv", "\t", "tab")}
"""Ending to the name of the format, what stands between two cells, and how that is called."""


def _delimiter(file: StoredFile, usual: str) -> str:
    """What stands between two cells; a semicolon where spreadsheets of many countries wrote the file."""
    line = first_line(file)
    return ";" if usual not in line and ";" in line else usual


def _look_any(file: StoredFile, wanted: ColumnMapping, delimiter: str) -> None:
    require_columns(f"{file.label}, line 1", header(file, _delimiter(file, delimiter)), wanted)


def _any(file: StoredFile, asked: Asked, delimiter: str) -> TextLayout:
    _look_any(file, asked.mapping, delimiter)
    found = _delimiter(file, delimiter)
    return TextLayout(
        delimiter=found,
        columns=tuple(header(file, found)),
        mapping=asked.mapping,
        header=True,
        quoted=True,
        any_times=True,
    )


GENERIC = tuple(
    Reader(
        name=name,
        what=f"any {word}-separated table with a header line",
        given_as="the file, with `data.columns` and `data.rating_range`",
        read=partial(_rows, layout_of=partial(_any, delimiter=delimiter)),
        recognises=by_name(ending),
        times=True,
        generic=True,
        columns=partial(_look_any, delimiter=delimiter),
    )
    for ending, (name, delimiter, word) in ENDINGS.items()
)
