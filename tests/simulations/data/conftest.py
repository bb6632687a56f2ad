"""Tiny data sets, and what is in what was read."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from fedboard.simulations.data import ColumnMapping, Ratings, load_ratings, workbench
from fedboard.simulations.data.formats import netflix
from fedboard.simulations.data.sharding import ShardOptions, shard_ratings
from fedboard.simulations.data.shards import ShardedRatings, open_shards

Shard = Callable[..., ShardedRatings]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows at a time, so that users are cut apart wherever they can be."""
    monkeypatch.setattr(netflix, "_BLOCK_BYTES", 700)
    monkeypatch.setattr(workbench, "_ROWS_AT_ONCE", 7)


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    """Shard a source into a new folder and open it."""
    made = iter(range(1000))

    def one(source: Path, **options: Any) -> ShardedRatings:
        out = tmp_path / f"shards-{next(made)}"
        shard_ratings(source, out, ShardOptions(**{"memory": 1 << 28} | options))
        return open_shards(out)

    return one


def in_memory(source: Path, shards: ShardedRatings, **options: Any) -> Ratings:
    """What ``load_ratings`` makes of the same source, with times where the shards have them."""
    if not shards.has_times and "columns" in options:
        options["columns"] = ColumnMapping()
    return load_ratings(source, times=shards.has_times, **options)


SCHEMA: dict[str, Any] = {
    "version": "2025.3",
    "default_interaction": "rating",
    "entities": {"user": {"id_type": "str"}, "item": {"id_type": "int"}},
    "relationships": {
        "likes": {"entities": {"user": None}},
        "rating": {"entities": {"user": None, "item": None}, "interaction": True},
    },
}
TABLES: dict[str, dict[str, Any]] = {
    "user": {"user_id": ["bob", "ann", "nobody"]},
    "item": {"item_id": [30, 4, 5], "title": ["Heat", "Amélie", ""]},
    "rating": {
        "user_num": pa.array([0, 1, 1], pa.int32()),
        "item_num": pa.array([1, 0, 1], pa.int32()),
        "rating": [3.5, 1.0, 5.0],
        "timestamp": pa.array([7, 8, 9], pa.timestamp("s")),
    },
}


def contents(ratings: Ratings) -> dict[tuple[str, str], float]:
    """By user and item, in the words of the source."""
    users, items = ratings.user_ids[ratings.users], ratings.item_ids[ratings.items]
    return {(str(u), str(i)): float(value) for u, i, value in zip(users, items, ratings.values, strict=True)}


def written(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def json_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    return written(path, "\n\n".join(json.dumps(row) for row in rows) + "\n")


def lenskit(folder: Path, **changes: Any) -> Path:
    """What LensKit saves, with other tables or another schema."""
    written(folder / "schema.json", json.dumps(changes.pop("schema", SCHEMA)))
    for name, columns in (TABLES | changes).items():
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet", compression="zstd")
    return folder
