"""Users and items stand in the order of ``load_ratings``, though no run knows which ids come later."""

import csv
import itertools
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fedboard.common.cohort import Cohort
from fedboard.simulations.data import load_ratings
from fedboard.simulations.data.sharding import ShardOptions, shard_ratings
from fedboard.simulations.data.shards import ShardedRatings, open_shards
from tests.simulations.data.conftest import Shard
from tests.simulations.data.test_shards import assert_same

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\ufffd"), min_size=1, max_size=4)
NUMBERS = st.one_of(st.integers(0, 30), st.integers(2**63 - 2, 2**64 + 2), st.integers(0, 10**30)).map(str)
IDS = st.one_of(NUMBERS, NUMBERS, NUMBERS, TEXTS)
VALUES = st.floats(0.5, 5, width=32)


def written(path: Path, rows: list[tuple[tuple[str, str], float]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(["user", "item", "rating"])
        writer.writerows([user, item, value] for (user, item), value in rows)
    return path


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    "late",
    ["x", "007", "99999999999999999999", "18446744073709551616", "é", "10", "-1"],
    ids=[
        "a text",
        "no plain number",
        "a long one",
        "one too long for 64 bits",
        "accents",
        "like all",
        "sign",
    ],
)
def test_an_id_that_comes_late_may_change_the_order_of_all(late: str, tmp_path: Path, shard: Shard) -> None:
    rows = [((str(u), str(i)), 1.0 + (u + i) % 5) for u in range(120, 0, -1) for i in (3, 20)]
    source = written(tmp_path / "late.csv", [*rows, ((late, "4"), 2.0), (("5", late), 3.0)])
    if late == "10":
        source = written(tmp_path / "late.csv", rows)

    shards = shard(source, rating_range=(1.0, 5.0))

    assert_same(shards, load_ratings(source, rating_range=(1.0, 5.0)))


@pytest.mark.slow
@pytest.mark.usefixtures("small_parts")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.tuples(IDS, IDS), VALUES, min_size=1, max_size=60), st.integers(1, 20))
def test_any_ids_are_numbered_as_in_memory(rows: dict[Any, float], shard_size: int) -> None:
    with TemporaryDirectory() as folder:
        source = written(Path(folder) / "any.csv", list(rows.items()))
        options = ShardOptions(rating_range=(0.5, 5.0), shard_ratings=shard_size)
        shard_ratings(source, Path(folder) / "shards", options)

        assert_same(open_shards(Path(folder) / "shards"), load_ratings(source, rating_range=(0.5, 5.0)))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[ShardedRatings, Cohort]:
    """Users of whom some have no rating, in shards of few row groups of few users."""
    rng = np.random.default_rng(1)
    chosen = rng.random((90, 15)) < rng.choice([0.02, 0.6], (90, 1))
    users, items = np.nonzero(chosen)
    folder = tmp_path_factory.mktemp("many")
    last = np.append(users, 94), np.append(items, 3)  # 90 to 93 have none
    np.savez(folder / "any.npz", user=last[0], item=last[1], rating=1 + last[1] % 5, item_id=np.arange(15))
    shard_ratings(folder / "any.npz", folder / "shards", ShardOptions(shard_ratings=17))
    return open_shards(folder / "shards"), load_ratings(folder / "any.npz").cohort()


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, 95), max_size=6))
def test_whatever_blocks_are_read_the_rows_are_the_same(
    many: tuple[ShardedRatings, Cohort], cuts: list[int]
) -> None:
    shards, whole = many
    bounds = [0, *sorted(cuts), 95]

    for start, stop in itertools.pairwise(bounds):
        expected, found = whole.rows(start, stop), shards.read(start, stop)
        assert (found.first_row, found.n_items) == (expected.first_row, expected.n_items)
        for name in ("indptr", "items", "ratings", "keys"):
            assert_array_equal(getattr(found, name), getattr(expected, name))
        assert_array_equal(shards.counts(start, stop), expected.counts)
