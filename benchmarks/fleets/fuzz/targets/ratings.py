"""Ratings, and tables of items, as people keep them and others publish them; backups."""

import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
from fleets.fuzz.files import file_parser
from fleets.fuzz.specimens import boards, folder
from fleets.fuzz.trials import Parser

from fedboard.client.ratings.importing import read_ratings
from fedboard.client.ratings.own_file import read_own_ratings
from fedboard.server.catalogue.column_mapping import ColumnMapping
from fedboard.server.catalogue.features import load_item_features
from fedboard.server.catalogue.stored_file import StoredFile
from fedboard.server.catalogue.titles import layout_of, read_titles
from fedboard.server.fleet.keeping.archive import Contents, digest_of, write_archive
from fedboard.server.fleet.keeping.archive import unpack as unpack_archive
from fedboard.simulations.datasets.loading import load_ratings


def ratings_parsers() -> list[Parser]:
    """Of devices, simulations and servers."""
    return [*_of_ratings(), *_of_tables()]


def _of_ratings() -> list[Parser]:
    catalogue = boards()[1].catalogue
    own = "item,rating,timestamp\n3,4.5,1700000000\n5,2,\nTitle of item 7 (1907),3.5,1\n"
    table = "".join(f"{user},{item},{1 + (user + item) % 5}\n" for user in range(4) for item in range(5))
    lines = "".join(
        f"{user}::{item}::{1 + item % 5}::978300760\n" for user in range(1, 4) for item in range(1, 5)
    )
    hundred = "".join(
        f"{user}\t{item}\t{1 + item % 5}\t978300760\n" for user in range(1, 4) for item in range(1, 5)
    )

    def loaded(form: str | None) -> Callable[[Path], object]:
        return lambda place: load_ratings(place, format=form, rating_range=(1.0, 5.0)).n_users

    return [
        file_parser(
            "own-ratings",
            "own.csv",
            lambda place: read_own_ratings(place, catalogue, rating_range=(0.5, 5.0)),
            (own.encode(),),
            "lines",
        ),
        file_parser("imported-ratings", "mine.csv", read_ratings, (own.encode(),), "lines"),
        file_parser(
            "ratings-table",
            "ratings.csv",
            loaded(None),
            (f"user,item,rating\n{table}".encode(),),
            "lines",
            share=0.2,
        ),
        file_parser(
            "ratings-movielens", "ratings.dat", loaded("movielens-1m"), (lines.encode(),), "lines", share=0.2
        ),
        file_parser(
            "ratings-100k", "u.data", loaded("movielens-100k"), (hundred.encode(),), "lines", share=0.2
        ),
    ]


def _parquet() -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    held = BytesIO()
    columns = {"user": ["ann", "bob", "ann"], "item": [1, 2, 2], "rating": [1.0, 4.5, 3.0]}
    parquet.write_table(pa.table(columns), held)
    return held.getvalue()


def _of_tables() -> list[Parser]:
    ids = tuple(map(str, range(1, 11)))
    films = "".join(
        f"{n}::Film {n} ({1950 + n})::Drama|{'Comedy' if n % 2 else 'War'}\n" for n in range(1, 11)
    )
    table = "item,year,genres\n" + "".join(f"{n},{1950 + n},a|b{n % 2}\n" for n in range(1, 11))

    def listed(place: Path) -> object:
        file = StoredFile(path=place)
        return read_titles(file, layout_of(file, ColumnMapping()))

    held = BytesIO()
    numbers = {name: np.arange(1, 7) % 3 for name in ("user", "item", "rating")}
    numbers["item"] = np.repeat(np.arange(2), 3)
    np.savez(held, **{**numbers, "rating": np.ones(6)}, item_id=np.array(["a", "b", "c"]))

    def unpacked(place: Path) -> object:
        with tempfile.TemporaryDirectory(dir=place.parent) as target:
            return unpack_archive(place, Path(target))

    def parquet(place: Path) -> object:
        return load_ratings(place, rating_range=(1.0, 5.0)).n_users

    content = folder() / "kept"
    content.write_bytes(b"something")
    backup = folder() / "backup.tar"
    if not backup.exists():
        digests = {"kept": digest_of(content)}
        contents = Contents(name="films", made=1.0, board=-1, outside=(), digests=digests)
        write_archive(backup, contents, {"kept": content})
    return [
        file_parser(
            "features",
            "movies.dat",
            lambda place: load_item_features(place, ids),
            (films.encode(),),
            "lines",
            share=0.2,
        ),
        file_parser(
            "features-table",
            "films.csv",
            lambda place: load_item_features(place, ids),
            (table.encode(),),
            "lines",
            share=0.2,
        ),
        file_parser("titles", "movies.dat", listed, (films.encode(),), "lines", share=0.2),
        file_parser(
            "ratings-npz",
            "ratings.npz",
            lambda place: load_ratings(place, rating_range=(1.0, 5.0)).n_users,
            (held.getvalue(),),
            None,
            share=0.2,
        ),
        file_parser("ratings-parquet", "ratings.parquet", parquet, (_parquet(),), None, share=0.2),
        file_parser("backup", "backup.tar", unpacked, (backup.read_bytes(),), None, share=0.2),
    ]
