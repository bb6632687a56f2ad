"""Tiny data sets, and what is in what was read."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from fedboard.simulations.data import Ratings

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
