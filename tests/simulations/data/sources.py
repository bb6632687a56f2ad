"""The same few ratings in every format, with repeated pairs, zeros and titles where a format has them."""

import gzip
import json
from collections.abc import Callable, Sequence
from functools import partial
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


def _folder(root: Path, name: str, files: dict[str, bytes]) -> Path:
    (root / name).mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (root / name / file).write_bytes(content)
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


def _same(rows: Sequence[Row]) -> Sequence[Row]:
    return rows


OF_2023, OF_20M = "user_id,parent_asin,rating,timestamp\n", "userId,movieId,rating,timestamp\n"
OF_RECBOLE = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
TEXT: dict[str, tuple[str, str, str, Callable[[Sequence[Row]], Sequence[Row]]]] = {
    "movielens-100k": ("ml-100k/u.data", "", "{}\t{}\t{}\t{}", _same),
    "movielens-1m": ("ml-1m/ratings.dat", "", "{}::{}::{}::{}", _same),
    "movielens-10m": ("ml-10M100K/ratings.dat", "", "{}::{}::{}.5::{}", _same),
    "movielens-20m": ("ml-20m/ratings.csv", OF_20M, "{},{},{}.0,{}", _same),
    "amazon-2014": ("Books.csv", "", f"{AMAZON_USER},{AMAZON_ITEM},{{2}}.0,{{3}}", again),
    "amazon-2018": ("Books.csv", "", f"{AMAZON_ITEM},{AMAZON_USER},{{2}}.0,{{3}}", again),
    "amazon-2023": ("Books.csv", OF_2023, "u{},{},{}.0,{}000", again),
    "msd": ("train_triplets.txt", "", f"{A40}\t{SO}\t{{2}}", again),
    "lastfm-360k": (
        "usersha1-artmbid-artname-plays.tsv",
        "",
        f"{A40}\t{MB}\tartist {{1}}\t{{2}}",
        lambda rows: _zeros(rows),
    ),
    "recbole": ("tiny/tiny.inter", OF_RECBOLE, "u{}\t{}\t{}\t{}.0", _same),
    "csv": ("any.csv.gz", "time,user,rating,item\n", "{3},{0},{2},{1}", _same),
    "tsv": ("any.tsv", "user\titem\trating\n", '"u\t{0}"\t{1}\t{2}', _same),
}
"""The file, in a folder where that is what is named; its header; a line of user, item, rating and time; and what is
done to the rows before."""
TITLES = {
    "movielens-100k": ("u.item", b"", "{}|{}|01-Jan-1995", "latin-1"),
    "movielens-1m": ("movies.dat", b"", "{}::{}::Drama", "latin-1"),
    "movielens-10m": ("movies.dat", b"", "{}::{}::Drama", "utf-8"),
    "movielens-20m": ("movies.csv", b"movieId,title,genres\n", '{},"{}",Drama', "utf-8"),
    "recbole": ("tiny.item", b"item_id:token\ttitle:token_seq\n", "{}\t{}", "utf-8"),
}
JSON = {
    "yelp": ("yelp/yelp_academic_dataset_review.json", "user_id business_id stars date", again),
    "goodreads": (
        "books/goodreads_interactions_poetry.json",
        "user_id book_id rating date_added",
        lambda rows: _zeros(again(rows)),
    ),
    "jsonl": ("any.jsonl", "user item rating time", _same),
}
STARS = {"rating_range": (1.0, 5.0)}
OPTIONS: dict[str, dict[str, Any]] = {
    "movielens-10m": {"rating_range": (0.5, 5.5)},
    **dict.fromkeys(("csv", "jsonl", "parquet", "parquet of texts", "parquet in parts"), GENERIC),
    **dict.fromkeys(("recbole", "lenskit", "tsv"), STARS),
}
OTHERS: dict[str, Callable[[Path, list[Row]], Path]] = {
    "netflix": partial(_netflix, together=False),
    "netflix-combined": partial(_netflix, together=True),
    "lenskit": _lenskit,
    "parquet": partial(_parquet, texts=False),
    "parquet of texts": partial(_parquet, texts=True),
    "parquet in parts": _parts,
    "npz": _npz,
}


def _written(root: Path, rows: list[Row], name: str) -> tuple[Path, dict[str, Any]]:
    options = OPTIONS.get(name, {})
    if name in OTHERS:
        return OTHERS[name](root, rows), options
    if name in TEXT:
        file, header, form, changed = TEXT[name]
        content = (header + "".join(form.format(*row) + "\n" for row in changed(rows))).encode()
    else:
        file, fields, changed = JSON[name]
        content = _json(
            changed(rows), **dict(zip(("user", "item", "rating", "time"), fields.split(), strict=True))
        )
    folder, _, base = file.rpartition("/")
    files = {base: gzip.compress(content) if base.endswith(".gz") else content}
    if name in TITLES:
        beside, head, form, encoding = TITLES[name]
        files[beside] = head + _titled(form, encoding)
    place = _folder(root, folder, files)
    return (place if folder else place / base), options


SOURCES = {name: partial(_written, name=name) for name in (*TEXT, *JSON, *OTHERS)}
"""By format, what writes a source and how it is then asked for."""
