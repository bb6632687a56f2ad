"""Shards written without fedboard: a folder that `fedboard simulate --data` reads, of rows sorted already.

    python examples/write_shards.py DIR

What any other program (a Spark job, a database) must do is in `write`: one Parquet file for each part of the users,
one row group each, then the manifest. Rows come sorted by user and item; users and items are numbered from 0.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

RATINGS = {"ann": {"tea": 4.0, "jam": 2.0}, "bob": {"tea": 5.0}, "eve": {"jam": 1.0, "ham": 3.0}}
"""Made up. Users in the order of their ids."""


def key(user: str) -> int:
    """What the coins of splits are thrown by: the 64-bit BLAKE2b digest of the id, little-endian."""
    digest = hashlib.blake2b(user.encode(), digest_size=8, person=b"fedboard user").digest()
    return int.from_bytes(digest, "little")


def write(folder: Path, parts: list[list[str]], items: list[str]) -> None:
    """One file for each part of the users, and the manifest."""
    os.umask(0o077)  # raw ratings: for their owner alone
    folder.mkdir()
    parquet.write_table(pa.table({"item": pa.array(items, pa.string())}), folder / "items.parquet")
    shards, number = [], 0
    for part, users in enumerate(parts):
        rows = []
        for user in users:
            of_user = sorted((items.index(item), value) for item, value in RATINGS[user].items())
            rows += [(number, key(user), item, value) for item, value in of_user]
            number += 1
        path = folder / f"ratings-{part:05d}.parquet"
        kinds = {"user": pa.int64(), "key": pa.uint64(), "item": pa.int32(), "value": pa.float32()}
        columns = zip(kinds.items(), zip(*rows, strict=True), strict=True)
        table = pa.table({name: pa.array(cells, kind) for (name, kind), cells in columns})
        parquet.write_table(table, path, row_group_size=len(rows))
        groups = [{"users": len(users), "ratings": len(rows), "without_ratings": 0}]
        shards.append(
            {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256(path), "groups": groups}
        )
    manifest = {
        "format": "fedboard-shards-1",
        "note": "raw ratings of people",
        "name": "written elsewhere",
        "rating_range": [1.0, 5.0],
        "presence": False,
        "items_listed": True,
        "times": False,
        "users": number,
        "ratings": sum(group["ratings"] for shard in shards for group in shard["groups"]),
        "items": {
            "file": "items.parquet",
            "sha256": sha256(folder / "items.parquet"),
            "count": len(items),
            "titles": False,
        },
        "shards": shards,
    }
    (folder / "shards.json").write_text(json.dumps(manifest))


def sha256(path: Path) -> str:
    """Of a file, hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    write(Path(sys.argv[1]), [["ann", "bob"], ["eve"]], ["ham", "jam", "tea"])
