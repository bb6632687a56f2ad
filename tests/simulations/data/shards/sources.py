"""The same few ratings in every format, with repeated pairs, zeros and titles where a format has them."""

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from fedboard.simulations.data import ColumnMapping

Row = tuple[int, int, int, int]
"""User, item, rating and time."""
N_USERS, N_ITEMS = 40, 12


def some_rows(seed: int = 0, *, n_users: int = N_USERS) -> list[Row]:
    """Rows in no order; each user has some, each item at least one."""
    rng = np.random.default_rng(seed)
    chosen = rng.random((n_users, N_ITEMS)) < 0.4
    chosen[np.arange(n_users), np.arange(n_users) % N_ITEMS] = True
    users, items = np.nonzero(chosen)
    order = rng.permutation(users.size)
    stars, when = rng.integers(1, 6, users.size), rng.integers(10**9, 2 * 10**9, users.size)
    return [
        (int(u) * 7 + 3, int(i) * 5 + 2, int(r), int(t))
        for u, i, r, t in zip(users[order], items[order], stars, when, strict=True)
    ]


def _titled(form: str, encoding: str = "utf-8") -> bytes:
    """Titles of all items and of one that nobody rated, in no order."""
    ids = [*(number * 5 + 2 for number in range(N_ITEMS)), 999][::-1]
    return "".join(form.format(item, f"Amélie {item}") + "\n" for item in ids).encode(encoding)


def _lines(rows: Sequence[Row], form: str, head: str = "") -> bytes:
    return (head + "".join(form.format(*row) + "\n" for row in rows)).encode()


def _folder(root: Path, name: str, files: dict[str, bytes]) -> Path:
    (root / name).mkdir(parents=True)
    for file, content in files.items():
        (root / name / file).write_bytes(content)
    return root / name


def _file(root: Path, name: str, content: bytes) -> Path:
    (root / name).write_bytes(content)
    return root / name


def _netflix(root: Path, rows: Sequence[Row], *, together: bool) -> Path:
    by_item: dict[int, list[Row]] = {}
    for row in rows:
        by_item.setdefault(row[1], []).append(row)
    day = "2005-{0:02}-{1:02}"
    parts = {
        item: f"{item}:\n"
        + "".join(f"{u},{r},{day.format(1 + t % 12, 1 + t % 28)}\n" for u, _, r, t in those)
        for item, those in by_item.items()
    }
    titles = _titled("{0},2000,{1}", "latin-1")
    if together:
        texts = list(parts.values())
        files = {
            "combined_data_1.txt": "".join(texts[:5]).encode(),
            "combined_data_2.txt": "".join(texts[5:]).encode(),
            "movie_titles.csv": titles,
        }
        return _folder(root, "kaggle", files)
    folder = _folder(root, "netflix/training_set", {f"mv_{i:07d}.txt": t.encode() for i, t in parts.items()})
    (folder.parent / "movie_titles.txt").write_bytes(titles)
    return folder


def _json(rows: Sequence[Row], **names: str) -> bytes:
    def told(row: Row) -> dict[str, Any]:
        user, item, rating, when = row
        return {
            names["user"]: f"u{user}",
            names["item"]: str(item),
            names["rating"]: rating,
            names["time"]: str(np.datetime64(when, "s")).replace("T", " "),
            "text": "a\n{b",
        }

    return "".join(json.dumps(told(row)) + "\n" for row in rows).encode()


def _parquet(root: Path, rows: Sequence[Row], *, texts: bool) -> Path:
    users, items, ratings, times = (list(column) for column in zip(*rows, strict=True))
    table = {
        "user": pa.array([f"é{u}" for u in users]).dictionary_encode() if texts else users,
        "item": items,
        "rating": ratings,
        "time": pa.array(times, pa.timestamp("s")),
    }
    parquet.write_table(pa.table(table), root / "any.parquet", row_group_size=50)
    return root / "any.parquet"


def _parts(root: Path, rows: Sequence[Row]) -> Path:
    """As Spark writes them; ids of one part are kept in another way."""
    (root / "lake").mkdir()
    for number, texts in enumerate((True, False, True)):
        (root / str(number)).mkdir()
        table = parquet.read_table(_parquet(root / str(number), rows[number::3], texts=True))
        if texts:
            table = table.set_column(0, "user", table.column("user").cast(pa.string()))
        parquet.write_table(table, root / "lake" / f"part-{number:05d}-abc.c000.parquet")
    (root / "lake" / "_SUCCESS").touch()
    return root / "lake"


def _lenskit(root: Path, rows: Sequence[Row]) -> Path:
    users, items = (sorted({row[at] for row in rows}, key=str) for at in (0, 1))
    schema = {"relationships": {"rating": {"entities": {"user": None, "item": None}}}}
    folder = _folder(root, "lenskit", {"schema.json": json.dumps(schema).encode()})
    tables = {
        "user": {"user_id": users},
        "item": {"item_id": [*items, 999], "title": [f"T {item}" for item in [*items, 999]]},
        "rating": {
            "user_num": [users.index(row[0]) for row in rows],
            "item_num": [items.index(row[1]) for row in rows],
            "rating": [float(row[2]) for row in rows],
            "timestamp": pa.array([row[3] for row in rows], pa.timestamp("s")),
        },
    }
    for name, columns in tables.items():
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


def _npz(root: Path, rows: Sequence[Row]) -> Path:
    """With a user without ratings between the others."""
    user, item, rating, _ = (np.array(column) for column in zip(*rows, strict=True))
    np.savez(root / "any.npz", user=user, item=item // 5, rating=rating, item_id=np.arange(N_ITEMS) * 5 + 2)
    return root / "any.npz"


def again(rows: Sequence[Row]) -> list[Row]:
    """The same with some pairs again, later, earlier, and at the same time."""
    more = [(u, i, 1 + (r + 1) % 5, t + 10 * (k % 3 - 1)) for k, (u, i, r, t) in enumerate(rows[:30])]
    return [*rows, *more]


def _zeros(rows: Sequence[Row]) -> list[Row]:
    """The same with zeros among them: also of a user, and of an item, who have nothing else."""
    return [(5000, rows[0][1], 0, 9), *rows, (rows[0][0], 9000, 0, 9)]


A40, SO, MB = "{0:040x}", "SO{1:016d}", "af8e4cc5-ef54-458d-a194-{1:012x}"
GENERIC = {"rating_range": (1.0, 5.0), "columns": ColumnMapping(time="time")}
AMAZON_USER, AMAZON_ITEM = "A{0:09d}", "B{1:09d}"

SOURCES: dict[str, Callable[[Path, list[Row]], tuple[Path, dict[str, Any]]]] = {
    "movielens-100k": lambda root, rows: (
        _folder(
            root,
            "ml-100k",
            {"u.data": _lines(rows, "{}\t{}\t{}\t{}"), "u.item": _titled("{}|{}|01-Jan-1995", "latin-1")},
        ),
        {},
    ),
    "movielens-1m": lambda root, rows: (
        _folder(
            root,
            "ml-1m",
            {
                "ratings.dat": _lines(rows, "{}::{}::{}::{}"),
                "movies.dat": _titled("{}::{}::Drama", "latin-1"),
            },
        ),
        {},
    ),
    "movielens-10m": lambda root, rows: (
        _folder(
            root,
            "ml-10M100K",
            {"ratings.dat": _lines(rows, "{}::{}::{}.5::{}"), "movies.dat": _titled("{}::{}::Drama")},
        ),
        {"rating_range": (0.5, 5.5)},
    ),
    "movielens-20m": lambda root, rows: (
        _folder(
            root,
            "ml-20m",
            {
                "ratings.csv": _lines(rows, "{},{},{}.0,{}", "userId,movieId,rating,timestamp\n"),
                "movies.csv": b"movieId,title,genres\n" + _titled('{},"{}",Drama'),
            },
        ),
        {},
    ),
    "netflix": lambda root, rows: (_netflix(root, rows, together=False), {}),
    "netflix-combined": lambda root, rows: (_netflix(root, rows, together=True), {}),
    "amazon-2014": lambda root, rows: (
        _file(root, "Books.csv", _lines(again(rows), f"{AMAZON_USER},{AMAZON_ITEM},{{2}}.0,{{3}}")),
        {},
    ),
    "amazon-2018": lambda root, rows: (
        _file(root, "Books.csv", _lines(again(rows), f"{AMAZON_ITEM},{AMAZON_USER},{{2}}.0,{{3}}")),
        {},
    ),
    "amazon-2023": lambda root, rows: (
        _file(
            root,
            "Books.csv",
            _lines(again(rows), "u{},{},{}.0,{}000", "user_id,parent_asin,rating,timestamp\n"),
        ),
        {},
    ),
    "msd": lambda root, rows: (
        _file(root, "train_triplets.txt", _lines(again(rows), f"{A40}\t{SO}\t{{2}}")),
        {},
    ),
    "lastfm-360k": lambda root, rows: (
        _file(
            root,
            "usersha1-artmbid-artname-plays.tsv",
            _lines(_zeros(rows[:40]), f"{A40}\t{MB}\tartist {{1}}\t{{2}}")
            + _lines(rows[40:], f"{A40}\t{MB}\t\t{{2}}"),
        ),
        {},
    ),
    "recbole": lambda root, rows: (
        _folder(
            root,
            "tiny",
            {
                "tiny.inter": _lines(
                    rows,
                    "u{}\t{}\t{}\t{}.0",
                    "user_id:token\titem_id:token\trating:float\ttimestamp:float\n",
                ),
                "tiny.item": b"item_id:token\ttitle:token_seq\n" + _titled("{}\t{}"),
            },
        ),
        {"rating_range": (1.0, 5.0)},
    ),
    "yelp": lambda root, rows: (
        _folder(
            root,
            "yelp",
            {
                "yelp_academic_dataset_review.json": _json(
                    again(rows), user="user_id", item="business_id", rating="stars", time="date"
                )
            },
        ),
        {},
    ),
    "goodreads": lambda root, rows: (
        _folder(
            root,
            "books",
            {
                "goodreads_interactions_poetry.json": _json(
                    _zeros(again(rows)), user="user_id", item="book_id", rating="rating", time="date_added"
                )
            },
        ),
        {},
    ),
    "jsonl": lambda root, rows: (
        _file(root, "any.jsonl", _json(rows, user="user", item="item", rating="rating", time="time")),
        GENERIC,
    ),
    "lenskit": lambda root, rows: (_lenskit(root, rows), {"rating_range": (1.0, 5.0)}),
    "csv": lambda root, rows: (
        _file(root, "any.csv.gz", gzip.compress(_lines(rows, "{3},{0},{2},{1}", "time,user,rating,item\n"))),
        GENERIC,
    ),
    "tsv": lambda root, rows: (
        _file(root, "any.tsv", _lines(rows, '"u\t{0}"\t{1}\t{2}', "user\titem\trating\n")),
        {"rating_range": (1.0, 5.0)},
    ),
    "parquet": lambda root, rows: (_parquet(root, rows, texts=False), GENERIC),
    "parquet of texts": lambda root, rows: (_parquet(root, rows, texts=True), GENERIC),
    "parquet in parts": lambda root, rows: (_parts(root, rows), GENERIC),
    "npz": lambda root, rows: (_npz(root, rows), {}),
}
"""By format, what writes a source and how it is then asked for."""
