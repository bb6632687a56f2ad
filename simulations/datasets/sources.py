"""Which format a path holds: told by its name and its first line, or named outright."""

import zipfile
from dataclasses import dataclass
from pathlib import Path

from fedboard.common.errors import InputError
from fedboard.server.catalogue.stored_file import Place, StoredFile, archive, folder
from fedboard.simulations.datasets.formats import (
    delimited,
    movielens_100k,
    movielens_csv,
    movielens_dat,
    npz,
    parquet,
)
from fedboard.simulations.datasets.formats.text import first_line

DAT_FORMATS = (movielens_dat.FORMAT_1M, movielens_dat.FORMAT_10M)
MOVIELENS_CSV_FORMATS = (movielens_csv.FORMAT_20M, movielens_csv.FORMAT_LATEST)
FORMATS = (
    movielens_100k.FORMAT,
    *DAT_FORMATS,
    *MOVIELENS_CSV_FORMATS,
    *delimited.DELIMITERS,
    parquet.FORMAT,
    npz.FORMAT,
)
_RATINGS_FILES = {
    movielens_100k.RATINGS_FILE: (movielens_100k.FORMAT,),
    movielens_dat.RATINGS_FILE: DAT_FORMATS,
    movielens_csv.RATINGS_FILE: MOVIELENS_CSV_FORMATS,
}
_BY_SUFFIX = {
    ".csv": delimited.FORMAT_CSV,
    ".tsv": delimited.FORMAT_TSV,
    ".parquet": parquet.FORMAT,
    ".npz": npz.FORMAT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """A file of ratings, its format and its neighbours."""

    file: StoredFile
    formats: tuple[str, ...]
    """The format, or the two formats that it may have by its looks."""
    place: Place

    @property
    def name(self) -> str:
        """Short name for reports: of the folder or archive where the file has the format's usual name."""
        usual = self.file.member is not None or self.file.base_name in _RATINGS_FILES
        path = self.place.path.resolve()
        if not usual:
            return self.file.path.stem
        return path.stem if path.suffix.lower() == ".zip" else path.name


def find_source(path: Path, format_name: str | None, *, mapped: bool) -> DataSource:
    """Find the ratings file at a path and its format.

    Args:
        path: file, folder or zip archive.
        format_name: one of ``FORMATS``, or None to tell it from names and first lines.
        mapped: whether somebody named the columns, so that a CSV file is a plain one.

    Raises:
        InputError: nothing there, nothing recognised, or an unknown format name.
    """
    if format_name is not None and format_name not in FORMATS:
        raise InputError(f"unknown format {format_name!r}; use one of {', '.join(FORMATS)}.")
    if not path.exists():
        raise InputError(f"{path} does not exist; give a file, a folder or a zip archive of ratings.")
    if path.is_dir():
        return _within(folder(path), format_name)
    if path.suffix.lower() == ".zip" or (path.suffix.lower() != ".npz" and zipfile.is_zipfile(path)):
        return _within(archive(path), format_name)
    file = StoredFile(path=path)
    formats = (format_name,) if format_name is not None else _recognise(file, mapped=mapped)
    return DataSource(file=file, formats=formats, place=folder(path.resolve().parent))


def _within(place: Place, format_name: str | None) -> DataSource:
    """The MovieLens ratings file in a folder or archive."""
    for base_name, formats in _RATINGS_FILES.items():
        file = place.find(base_name)
        if file is not None and (format_name is None or format_name in formats):
            return DataSource(file=file, formats=(format_name,) if format_name else formats, place=place)
    raise InputError(
        f"{place.path} holds none of {', '.join(_RATINGS_FILES)}"
        f"{f' in format {format_name}' if format_name else ''}; give the path of the ratings file itself."
    )


def _recognise(file: StoredFile, *, mapped: bool) -> tuple[str, ...]:
    """The format of a single file."""
    by_suffix = _BY_SUFFIX.get(file.suffix)
    if by_suffix in (parquet.FORMAT, npz.FORMAT):
        return (by_suffix,)
    with file.open() as stream:
        if stream.read(len(parquet.MAGIC)) == parquet.MAGIC:
            return (parquet.FORMAT,)
    line = first_line(file)
    if not mapped:
        if movielens_dat.recognises(line):
            return DAT_FORMATS
        if movielens_csv.recognises(line):
            return MOVIELENS_CSV_FORMATS
        if movielens_100k.recognises(line) and by_suffix is None:
            return (movielens_100k.FORMAT,)
    if by_suffix is None:
        raise InputError(f"{file.label}: the format is not recognised; name it, one of {', '.join(FORMATS)}.")
    return (by_suffix,)


__all__ = ["DAT_FORMATS", "FORMATS", "MOVIELENS_CSV_FORMATS", "DataSource", "find_source"]
