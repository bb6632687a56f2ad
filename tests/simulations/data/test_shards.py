"""Shards of every format are what ``load_ratings`` makes of it, to the bit."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedboard.simulations.data import load_ratings, sharding
from fedboard.simulations.data.ratings import Ratings
from fedboard.simulations.data.shards import ShardedRatings
from tests.simulations.data.conftest import Shard, in_memory
from tests.simulations.data.sources import SOURCES, some_rows


def assert_same(shards: ShardedRatings, ratings: Ratings) -> None:
    """All that is in one is in the other, bit by bit, whoever reads it."""
    cohort = ratings.cohort()
    found = shards.read(0, shards.n_users)
    for name in ("indptr", "items", "ratings", "keys"):
        theirs, ours = getattr(cohort, name), getattr(found, name)
        assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    assert (shards.n_users, shards.n_ratings, shards.n_items) == (
        ratings.n_users,
        ratings.n_ratings,
        ratings.n_items,
    )
    assert shards.item_ids.tolist() == ratings.item_ids.tolist()
    for name in ("name", "titles", "rating_range", "presence", "items_listed"):
        assert getattr(shards, name) == getattr(ratings, name), name
    if ratings.times is not None:
        assert_array_equal(shards.times(0, shards.n_users), ratings.times)
    whole = load_ratings(shards.folder, times=shards.has_times)
    for name in ("users", "items", "values"):
        assert_array_equal(getattr(whole, name), getattr(ratings, name))
    assert_array_equal(whole.user_keys(), ratings.user_keys())


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", SOURCES)
def test_shards_of_a_format_are_what_is_loaded(name: str, tmp_path: Path, shard: Shard) -> None:
    rows = some_rows()
    if name == "npz":
        rows = [row for row in rows if row[0] % 3]
    source, options = SOURCES[name](tmp_path, rows)

    shards = shard(source, shard_ratings=60, **options)

    assert_same(shards, in_memory(source, shards, **options))
    assert shards.has_times == (name not in {"msd", "lastfm-360k", "tsv", "npz"})
    assert len(list(shards.folder.glob("ratings-*.parquet"))) > 2


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", ["movielens-20m", "netflix", "recbole"])
def test_all_listed_items_are_the_catalogue(name: str, tmp_path: Path, shard: Shard) -> None:
    source, options = SOURCES[name](tmp_path, some_rows())

    shards = shard(source, catalogue="listed", **options)

    assert shards.items_listed
    assert "999" in shards.item_ids
    assert_same(shards, in_memory(source, shards, catalogue="listed", **options))


@pytest.mark.slow  # their kernels are compiled
def test_made_up_people_are_sharded_a_block_at_a_time(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharding, "_USERS_AT_ONCE", 30)
    people = "synthetic:users=100,items=40,mean=8"

    shards = shard(Path(people), shard_ratings=300)

    assert_same(shards, in_memory(Path(people), shards))


def test_bytes_depend_on_the_ratings_and_not_on_the_order_of_the_file(
    tmp_path: Path, shard: Shard, request: pytest.FixtureRequest
) -> None:
    rows = some_rows()
    (tmp_path / "other").mkdir()
    one, options = SOURCES["movielens-20m"](tmp_path, rows)
    other, _ = SOURCES["movielens-20m"](tmp_path / "other", rows[::-1])

    first = shard(one, **options)
    request.getfixturevalue("small_parts")
    second = shard(other, **options)

    assert first.identity == second.identity
    assert np.array_equal(first.read(0, 5).items, second.read(0, 5).items)
