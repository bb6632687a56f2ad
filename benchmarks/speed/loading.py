"""How fast a ratings.csv of ML-20M's size is read, and with how much memory.

usage: python benchmarks/speed/loading.py [--rows 20000000] [--shuffled] [--json FILE]

Writes a synthetic ratings.csv to a temporary folder, then loads it in a fresh process.
``--shuffled`` puts the rows in random order, so that they have to be sorted; MovieLens files are sorted.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from process_tree import own_peak_mib

from fedboard.simulations.datasets import SyntheticConfig, load_ratings, synthetic_ratings

RATINGS_PER_USER = 145
N_ITEMS = 27_000
WRITE_STEP = 1_000_000


def write_ratings(path: Path, *, rows: int, shuffled: bool) -> None:
    import pyarrow as pa
    from pyarrow import csv

    # The cap on very active users takes some ratings away, hence the margin.
    n_users = int(1.05 * rows / RATINGS_PER_USER)
    config = SyntheticConfig(n_users=n_users, n_items=N_ITEMS, mean_ratings_per_user=RATINGS_PER_USER)
    ratings = synthetic_ratings(config)
    if ratings.n_ratings < rows:
        raise SystemExit(f"only {ratings.n_ratings} synthetic ratings, {rows} wanted")
    order = np.random.default_rng(0).permutation(rows) if shuffled else np.arange(rows)
    schema = pa.schema(
        [("userId", pa.int32()), ("movieId", pa.int32()), ("rating", pa.float32()), ("timestamp", pa.int64())]
    )
    # Real ids have gaps: the largest of ML-20M's 27 thousand is 131 262.
    with csv.CSVWriter(path, schema, write_options=csv.WriteOptions(quoting_style="none")) as writer:
        for start in range(0, rows, WRITE_STEP):
            part = order[start : start + WRITE_STEP]
            columns = [
                ratings.users[part] + 1,
                ratings.items[part] * 4 + 1,
                ratings.values[part] - np.float32(0.5),
                part + 1_000_000_000,
            ]
            arrays = [pa.array(column, type=kind) for column, kind in zip(columns, schema.types, strict=True)]
            writer.write_table(pa.table(arrays, schema=schema))


def load_once(path: Path) -> dict[str, float]:
    """Load in this process and report; meant for a fresh one."""
    start = time.perf_counter()
    ratings = load_ratings(path)
    seconds = time.perf_counter() - start
    peak = own_peak_mib() / 1024
    return {"load_seconds": seconds, "peak_memory_gb": peak, "rows": ratings.n_ratings}


def main() -> None:
    """Write the file and have a fresh process load it; with ``--load`` this is that process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--shuffled", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE", help="store the result here as well")
    parser.add_argument("--load", type=Path, metavar="FILE", help="only load this file, and report")
    options = parser.parse_args()
    if options.load is not None:
        print(json.dumps(load_once(options.load)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.csv"
        write_ratings(path, rows=options.rows, shuffled=options.shuffled)
        command = [sys.executable, __file__, "--load", str(path)]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        result = {**json.loads(output), "file_gb": path.stat().st_size / 2**30, "shuffled": options.shuffled}
    for name, value in result.items():
        print(f"{name:16} {value:.2f}" if isinstance(value, float) else f"{name:16} {value}")
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
