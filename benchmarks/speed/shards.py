"""Sharding a table that does not fit into memory: seconds, CPU, memory, and how fast the shards are read again.

usage: python benchmarks/speed/shards.py [--ratings 1e8] [--users 5e6] [--memory 1] [--folder DIR] [--keep]
           [--json FILE]

Writes a CSV of texts as user ids, in an order in which no two ratings of a user stand near each other, which is the
worst for sorting. Each step is a fresh process, so its peak memory is its own.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from process_tree import own_peak_mib

ITEMS = 20_011
"""A prime: a user's items are steps of one size through them, so that none comes twice."""
AT_ONCE = 1_000_000
BLOCK_RATINGS = 1 << 20


def rows(start: int, stop: int, *, n_ratings: int, n_users: int) -> dict[str, Any]:
    """Some rows of the table: row k is the rating number ``stride * k mod n_ratings`` of all, user by user."""
    stride = next(s for s in range(int(n_ratings * 0.618) | 1, n_ratings * 2) if math.gcd(s, n_ratings) == 1)
    place = np.arange(start, stop, dtype=np.int64) * stride % n_ratings
    user, nth = place % n_users, place // n_users
    step = 1 + user * 7919 % (ITEMS - 1)
    return {
        "user": user * 2_654_435_761 % (1 << 40),
        "item": (user * 31 + nth * step) % ITEMS,
        "rating": 0.5 + (user + nth) % 10 / 2,
        "time": 1_000_000_000 + place % 500_000_000,
    }


def write_table(path: Path, *, n_ratings: int, n_users: int) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    schema = pa.schema(
        [("user", pa.string()), ("item", pa.int64()), ("rating", pa.float64()), ("time", pa.int64())]
    )
    with csv.CSVWriter(path, schema, write_options=csv.WriteOptions(quoting_style="none")) as writer:
        for start in range(0, n_ratings, AT_ONCE):
            part = rows(start, min(start + AT_ONCE, n_ratings), n_ratings=n_ratings, n_users=n_users)
            names = pc.binary_join_element_wise("u", pa.array(part["user"]).cast(pa.string()), "")
            writer.write_table(pa.table([names, *(part[name] for name in schema.names[1:])], schema=schema))


def shard(source: Path, out: Path, memory: float) -> None:
    from fedboard.server.catalogue.column_mapping import ColumnMapping
    from fedboard.simulations.streams.shards import ShardOptions, shard_ratings

    options = ShardOptions(
        columns=ColumnMapping(time="time"), rating_range=(0.5, 5.0), memory=int(memory * 1e9)
    )
    shard_ratings(source, out, options)


def read(out: Path) -> None:
    """Go through all users, a block of about a million ratings at a time."""
    from fedboard.simulations.streams.shards import open_shards

    shards = open_shards(out)
    step = max(1, BLOCK_RATINGS * shards.n_users // shards.n_ratings)
    n_ratings = 0
    for start in range(0, shards.n_users, step):
        n_ratings += shards.read(start, min(start + step, shards.n_users)).n_ratings
    if n_ratings != shards.n_ratings:
        raise SystemExit(f"{n_ratings} ratings were read of {shards.n_ratings}")


def measured(*arguments: str) -> dict[str, float]:
    """Seconds, CPU seconds and peak memory of one step in a fresh process."""
    command = [sys.executable, __file__, "--step", *arguments]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, float] = json.loads(output)
    return found


def step(name: str, *paths: str) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    if name == "shard":
        shard(Path(paths[0]), Path(paths[1]), float(paths[2]))
    else:
        read(Path(paths[0]))
    peak = own_peak_mib() / 1024
    told = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps({**told, "peak_memory_gb": peak}))


def run(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    n_ratings, n_users = int(options.ratings), int(options.users)
    if not 1 <= n_users <= n_ratings <= n_users * ITEMS:
        raise SystemExit(f"--users must be 1 to --ratings, which are at most {ITEMS} for each")
    source, out = folder / "ratings.csv", folder / "shards"
    write_table(source, n_ratings=n_ratings, n_users=n_users)
    made = measured("shard", str(source), str(out), str(options.memory))
    again = measured("read", str(out))
    n_bytes = sum(path.stat().st_size for path in out.iterdir())
    return {
        "ratings": n_ratings,
        "users": n_users,
        "source_gb": source.stat().st_size / 2**30,
        "shards_gb": n_bytes / 2**30,
        "bytes_per_rating": n_bytes / n_ratings,
        **{f"shard_{name}": value for name, value in made.items()},
        "sharded_per_cpu_second": n_ratings / made["cpu_seconds"],
        **{f"read_{name}": value for name, value in again.items()},
        "read_per_cpu_second": n_ratings / again["cpu_seconds"],
    }


def main() -> None:
    """Write a table, shard it, and read it again; with ``--step`` this is one of these."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ratings", type=float, default=1e8)
    parser.add_argument("--users", type=float, default=5e6)
    parser.add_argument("--memory", type=float, default=1.0, help="GB that sorting may take")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where there is room for the table")
    parser.add_argument("--keep", action="store_true", help="leave table and shards there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the result here as well")
    parser.add_argument("--step", nargs="+", help="only this step, in this process")
    options = parser.parse_args()
    if options.step is not None:
        step(*options.step)
        return
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        result = run(folder, options)
    finally:
        if not options.keep:
            shutil.rmtree(folder)
    for name, value in result.items():
        print(f"{name:24} {value:.4g}" if isinstance(value, float) else f"{name:24} {value:,}")
    print(f"{'cores':24} {os.cpu_count()}")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
