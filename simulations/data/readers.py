"""The formats of rating files, one line each, and which of them a path holds: told by looks, or named outright."""

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from fedboard.common.algorithms.shared.brought import entries_of, loaded
from fedboard.common.checks import did_you_mean
from fedboard.common.errors import InputError
from fedboard.common.files import open_file
from fedboard.server.catalogue.stored_file import Place, StoredFile, archive, folder
from fedboard.simulations.data.formats import json_lines, lenskit, netflix, numbered, parquet, tables
from fedboard.simulations.data.formats.text import first_line
from fedboard.simulations.data.named import near_data
from fedboard.simulations.data.reader import Looks, Reader
from fedboard.simulations.own_code import is_own, own_object

READERS: Final[tuple[Reader, ...]] = (
    *tables.MOVIELENS,
    *netflix.READERS,
    *tables.AMAZON,
    *tables.PLAYS,
    tables.RECBOLE,
    *json_lines.READERS,
    *lenskit.READERS,
    *tables.GENERIC,
    *parquet.READERS,
    *numbered.READERS,
)
"""Those of this package; the first that recognises a file reads it."""
ENTRY_POINTS: Final = "fedboard.readers"
"""Under which other packages bring theirs: each names a ``Reader``."""
FORMATS: Final = tuple(reader.name for reader in READERS)
_FILE_NAMES = tuple(dict.fromkeys(reader.file_name for reader in READERS if reader.file_name is not None))
_HEAD_BYTES = 1 << 16


def readers() -> tuple[Reader, ...]:
    """All that are installed: those of this package first.

    Raises:
        InputError: one that another package brings cannot be loaded, or is no reader.
    """
    brought = entries_of(ENTRY_POINTS, entry_points)
    others = (
        _checked(loaded(found, "reader"), name) for name, found in brought.items() if name not in FORMATS
    )
    return (*READERS, *others)


def _named(choice: str) -> Reader:
    """The reader of a name, or that in a researcher's own file or module.

    Raises:
        InputError: there is none.
    """
    if is_own(choice):
        return _checked(own_object(choice, "reader"), choice)
    known = {reader.name: reader for reader in readers()}
    if choice not in known:
        meant = did_you_mean(choice, tuple(known)) or "."
        raise InputError(f"unknown format {choice!r}; use one of {', '.join(known)}{meant}")
    return known[choice]


def _checked(found: object, name: str) -> Reader:
    if not isinstance(found, Reader):
        raise InputError(
            f"reader {name!r} must be a Reader record, got {type(found).__name__}; see docs/guide/extending.md"
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """A file of ratings, who reads it, and its neighbours."""

    file: StoredFile
    reader: Reader
    place: Place
    files: tuple[StoredFile, ...] = ()
    """All that are read, where a folder or archive was named."""

    @property
    def name(self) -> str:
        """Short name for reports: of the folder or archive where the file has the format's usual name."""
        usual = bool(self.files) or self.file.base_name in _FILE_NAMES
        path = self.place.path.resolve()
        if not usual:
            return Path(self.file.base_name).stem if self.file.member is None else self.file.path.stem
        return path.stem if path.suffix.lower() == ".zip" else path.name


def find_source(
    path: Path, format_name: str | None, *, mapped: bool, titles: dict[str, str] | None = None
) -> DataSource:
    """Find the ratings file at a path and who reads it.

    Args:
        path: file, folder or zip archive.
        format_name: of a reader, or ``file.py:NAME`` of one's own; None to tell it from names and first lines.
        mapped: whether somebody named the columns, so that a text file is a plain table.
        titles: item id to title, where somebody named a file of titles. Public.

    Raises:
        InputError: nothing there, nothing recognised, or an unknown format name.
    """
    known = readers() if format_name is None else (_named(format_name),)
    if not path.exists():
        raise InputError(
            f"{path} does not exist; give a file, a folder or a zip archive of ratings{near_data(path) or '.'}"
        )
    named = format_name is not None
    if path.is_dir():
        return _within(folder(path), known, titles, named=named)
    open_file(path, largest=None).close()
    if path.suffix.lower() == ".zip" or (path.suffix.lower() != ".npz" and zipfile.is_zipfile(path)):
        return _within(archive(path), known, titles, named=named)
    file, place = StoredFile(path=path), folder(path.resolve().parent)
    if named:
        return DataSource(file=file, reader=known[0], place=place)
    looks = _looks(file, place, mapped=mapped, titles=titles)
    alike = [reader for reader in known if reader.recognises(looks)]
    if not alike:
        first_line(file)
        raise InputError(f"{file.label}: the format is not recognised; name it, one of {', '.join(FORMATS)}.")
    return DataSource(file=file, reader=_told_apart(alike, looks), place=place)


def _within(
    place: Place, known: Sequence[Reader], titles: dict[str, str] | None, *, named: bool
) -> DataSource:
    """The ratings file in a folder or archive, by its usual name."""
    file_names = tuple(dict.fromkeys(reader.file_name for reader in known if reader.file_name is not None))
    for file_name in file_names:
        files = place.matching(file_name)
        alike = [reader for reader in known if reader.file_name == file_name]
        if not files:
            continue
        looks = Looks(file=files[0], place=place, head=b"", line="", titles=titles)
        reader = alike[0] if named else _told_apart(alike, looks)
        return DataSource(file=files[0], reader=reader, place=place, files=files)
    raise InputError(
        f"{place.path} holds none of {', '.join(file_names or _FILE_NAMES)}"
        f"{f' in format {known[0].name}' if named else ''}; give the path of the ratings file itself."
    )


def _told_apart(alike: Sequence[Reader], looks: Looks) -> Reader:
    """The first whose it is; the last needs no proof, since one of them it is."""
    return next((reader for reader in alike[:-1] if reader.told_apart(looks)), alike[-1])


def _looks(file: StoredFile, place: Place, *, mapped: bool, titles: dict[str, str] | None) -> Looks:
    with file.open() as stream:
        head = stream.read(_HEAD_BYTES)
    plain = mapped or b"\0" in head
    line = "" if plain or not head.strip() else first_line(file)
    return Looks(file=file, place=place, head=head, line=line, titles=titles)
