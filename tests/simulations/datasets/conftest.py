"""Tiny data sets in every format, all with the same five ratings."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

# Rows in an order that is sorted neither by user nor by item; item 9 has a title outside ASCII.
ROWS = [(3, 10, 5), (1, 9, 1), (3, 9, 4), (1, 10, 2), (2, 10, 3)]
DRINKS = {9: "jam", 10: "tea"}
TITLES = {"9": "Amélie (2001)", "10": "Heat, the (1995)", "11": "Never Rated (1990)"}


def _write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def _movies(line: str, encoding: str) -> bytes:
    return "".join(line.format(item, title) + "\n" for item, title in TITLES.items()).encode(encoding)


@pytest.fixture
def write_ratings(tmp_path: Path) -> Callable[[str], Path]:
    """Write the five ratings in the named format; returns the folder or file."""

    def write(name: str) -> Path:
        tabs = "".join(f"{user}\t{item}\t{rating}\t881250949\n" for user, item, rating in ROWS).encode()
        dots = "".join(f"{user}::{item}::{rating}::0\n" for user, item, rating in ROWS).encode()
        commas = "".join(f"{user},{item},{rating}.0,0\r\n" for user, item, rating in ROWS)
        generic = "".join(f"u{user},{rating},{DRINKS[item]}\n" for user, item, rating in ROWS)
        columns = [np.array(column) for column in zip(*ROWS, strict=True)]
        match name:
            case "movielens-100k":
                return _write(
                    tmp_path / "ml-100k", {"u.data": tabs, "u.item": _movies("{}|{}|01-Jan-1995", "latin-1")}
                )
            case "movielens-1m":
                return _write(
                    tmp_path / "ml-1m",
                    {"ratings.dat": dots, "movies.dat": _movies("{}::{}::Drama", "latin-1")},
                )
            case "movielens-10m":
                return _write(
                    tmp_path / "ml-10M100K",
                    {"ratings.dat": dots, "movies.dat": _movies("{}::{}::Drama", "utf-8")},
                )
            case "movielens-20m":
                movies = b"movieId,title,genres\r\n" + _movies('{},"{}",Drama', "utf-8")
                ratings = f"userId,movieId,rating,timestamp\r\n{commas}".encode()
                return _write(tmp_path / "ml-20m", {"ratings.csv": ratings, "movies.csv": movies})
            case "csv" | "tsv":
                content = f"user,rating,item\n{generic}".replace(",", "," if name == "csv" else "\t")
                (tmp_path / f"five.{name}").write_text(content)
            case "parquet":
                table = pa.table(dict(zip(("user", "item", "rating"), columns, strict=True)))
                parquet.write_table(table, tmp_path / "five.parquet")
            case "npz":
                numbers = {3: 2, 1: 0, 2: 1, 9: 0, 10: 1}
                user, item = (np.array([numbers[x] for x in column], np.int32) for column in columns[:2])
                np.savez(
                    tmp_path / "five.npz", user=user, item=item, rating=columns[2], item_id=np.array([9, 10])
                )
        return tmp_path / f"five.{name}"

    return write


@pytest.fixture
def zip_folder() -> Callable[[Path], Path]:
    """Pack a folder as its publisher does: one folder inside the archive."""

    def pack(folder: Path) -> Path:
        path = folder.with_suffix(".zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("__MACOSX/ratings.csv", b"not this one")
            for file in sorted(folder.iterdir()):
                archive.write(file, f"{folder.name}/{file.name}")
        return path

    return pack
