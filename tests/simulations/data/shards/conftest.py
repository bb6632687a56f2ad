"""Sources in small parts, so that few ratings make many runs, and many shards of many row groups."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedboard.simulations.data import ColumnMapping, load_ratings, workbench
from fedboard.simulations.data.formats import netflix
from fedboard.simulations.data.ratings import Ratings
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
