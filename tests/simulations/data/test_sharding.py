"""Making shards: what is refused, in a sentence that names the line; and that there is all or nothing."""

import re
import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from fedboard.common.errors import InputError, StorageError
from fedboard.simulations.data import load_ratings, sharding
from fedboard.simulations.data.sharding import ShardOptions, shard_ratings
from tests.simulations.data.conftest import Shard
from tests.simulations.data.sources import SOURCES, some_rows

HEAD = "user,item,rating\n"
GOOD = "".join(f"u{u},{i},{1 + (u + i) % 5}\n" for u in range(30) for i in range(8))
FAULTS = {
    "off the range": (GOOD + "z,1,9\n" + GOOD.replace("u", "v"), "line 242: rating 9 is outside the public"),
    "no number": (GOOD + "z,1,x\n", "line 242: rating 'x' is not a number"),
    "twice": (GOOD + GOOD.replace("u", "v") + "u7,3,1\n", "line 482: user u7 has already rated item 3"),
    "nothing": ("", "has no ratings|has a header but no ratings|no ratings"),
}


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(("text", "said"), FAULTS.values(), ids=FAULTS)
def test_a_faulty_line_is_named_and_nothing_is_left(text: str, said: str, tmp_path: Path) -> None:
    source = tmp_path / "r.csv"
    source.write_text(HEAD + text)

    with pytest.raises(InputError) as told:
        shard_ratings(source, tmp_path / "out", ShardOptions(rating_range=(1, 5)))

    assert re.search(said, str(told.value))
    assert "\n" not in str(told.value)
    assert sorted(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize("count", ["0", "-1"])
def test_counts_that_are_none_are_told(count: str, tmp_path: Path) -> None:
    source, _ = SOURCES["msd"](tmp_path, some_rows()[:1])
    source.write_text(source.read_text().split("\n")[0].rsplit("\t", 1)[0] + f"\t{count}\n")

    with pytest.raises(InputError) as told:
        load_ratings(source, format="msd")
    with pytest.raises(InputError, match=re.escape(str(told.value))):
        shard_ratings(source, tmp_path / "out", ShardOptions(format="msd"))


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (
            {"user": ["a"], "item": [1], "rating": [3]},
            "part-1.parquet: its ids are whole numbers and those of",
        ),
        ({"user": [1, 2], "item": [1, 1], "rating": [3, 9]}, "part-1.parquet, row 2: rating 9 is outside"),
        (
            {"user": [1, 1], "item": [5, 5], "rating": [3, 3]},
            "part-1.parquet, row 2: user 1 has already rated",
        ),
        ({"user": [1, 2], "rating": [3, 9]}, "part-1.parquet: there is no column 'item'"),
    ],
)
def test_what_is_wrong_with_a_part_is_told_by_its_name(
    second: dict[str, list[Any]], said: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    parquet.write_table(pa.table({"user": [7, 8], "item": [1, 2], "rating": [1, 2]}), lake / "part-0.parquet")
    parquet.write_table(pa.table(second), lake / "part-1.parquet")

    for read in (
        lambda: shard_ratings(lake, tmp_path / "out", ShardOptions(rating_range=(1, 5))),
        lambda: load_ratings(lake, rating_range=(1, 5)),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            read()


def test_files_are_their_owners_alone(tmp_path: Path, shard: Shard) -> None:
    source, options = SOURCES["movielens-1m"](tmp_path, some_rows())

    folder = shard(source, shard_ratings=50, **options).folder

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert not list(folder.parent.glob(".*"))


def test_work_on_disk_is_its_owners_alone_and_goes_when_it_is_interrupted(tmp_path: Path) -> None:
    source, options = SOURCES["movielens-1m"](tmp_path, some_rows())
    seen: list[int] = []

    def interrupted(what: str, done: int, total: int | None) -> None:
        for path in [*tmp_path.glob(".out.unfinished"), *tmp_path.rglob(".out.unfinished/**/*")]:
            seen.extend([path.stat().st_mode & 0o077] if path.is_dir() else [])
        if what == "writing shards":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shard_ratings(source, tmp_path / "out", ShardOptions(**options), progress=interrupted)

    assert len(seen) > 5
    assert set(seen) == {0}
    assert [path.name for path in tmp_path.iterdir()] == ["ml-1m"]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    source, options = SOURCES["movielens-1m"](tmp_path, some_rows())
    (tmp_path / "a file").touch()

    with pytest.raises(StorageError, match=r"a file.*nothing was kept"):
        shard_ratings(source, tmp_path / "a file" / "out", ShardOptions(**options))
    with pytest.raises(StorageError, match=r"a file.*nothing was kept"):
        shard_ratings(source, tmp_path / "a file" / "more" / "out", ShardOptions(**options))


@pytest.mark.parametrize("there", ["a file", "a folder with something", "work of another"])
def test_nothing_that_is_there_is_touched(there: str, tmp_path: Path) -> None:
    source, options = SOURCES["movielens-1m"](tmp_path, some_rows())
    kept = tmp_path / ("out" if there == "a file" else "out/x" if "folder" in there else ".out.unfinished/x")
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("kept")

    with pytest.raises(InputError, match="is there"):
        shard_ratings(source, tmp_path / "out", ShardOptions(**options))

    assert kept.read_text() == "kept"


def test_a_full_disk_is_told_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, options = SOURCES["movielens-1m"](tmp_path, some_rows())
    usage = sharding.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(sharding.shutil, "disk_usage", lambda path: usage._replace(free=1000))

    with pytest.raises(StorageError, match=r"1 kB are free, and 67\.1 MB are needed .* Free some space"):
        shard_ratings(source, tmp_path / "out", ShardOptions(**options))

    assert [path.name for path in tmp_path.iterdir()] == ["ml-1m"]


@pytest.mark.parametrize("wrong", [{"shard_ratings": 0}, {"memory": 1000}])
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match="must be a whole number"):
        ShardOptions(**wrong)  # type: ignore[arg-type]
