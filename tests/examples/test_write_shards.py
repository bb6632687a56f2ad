"""Shards that were written without fedboard, by the page that specifies them, are read as those it makes itself."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedboard.simulations.datasets import load_ratings
from fedboard.simulations.datasets.shards import open_shards

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "write_shards.py"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written") / "shards"
    subprocess.run([sys.executable, "-I", EXAMPLE, folder], check=True)
    return folder


@pytest.mark.slow
def test_they_hold_what_a_table_of_the_same_ratings_holds(written: Path, tmp_path: Path) -> None:
    rows = "ann,tea,4\nann,jam,2\nbob,tea,5\neve,jam,1\neve,ham,3\n"
    (tmp_path / "same.csv").write_text(f"user,item,rating\n{rows}")

    expected = load_ratings(tmp_path / "same.csv", rating_range=(1.0, 5.0)).cohort()
    found = open_shards(written).read(0, 3)

    for name in ("indptr", "items", "ratings", "keys"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert open_shards(written).item_ids.tolist() == ["ham", "jam", "tea"]


@pytest.mark.slow
def test_keys_may_be_signed_where_nothing_else_can_be_written(written: Path) -> None:
    expected = open_shards(written).read(0, 3).keys
    content = json.loads((written / "shards.json").read_text())
    for shard in content["shards"]:
        path = written / shard["file"]
        table = parquet.read_table(path)
        keys = pa.array(table.column("key").to_numpy().view(np.int64))
        parquet.write_table(table.set_column(1, "key", keys), path)
        shard |= {"sha256": load_example()["sha256"](path), "bytes": path.stat().st_size}
    (written / "shards.json").write_text(json.dumps(content))

    found = open_shards(written).read(0, 3).keys

    assert found.dtype == np.uint64
    assert (expected > 2**63).any()
    np.testing.assert_array_equal(found, expected)


def load_example() -> dict[str, object]:
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(EXAMPLE.read_text(), EXAMPLE, "exec"), names)
    return names
