"""LensKit's saved data sets: numbers of rows become ids, the table of items is the catalogue, faults are named."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from fedboard.common.errors import InputError
from fedboard.simulations.datasets import load_ratings

SCHEMA = {
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


def saved(folder: Path, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "schema.json").write_text(json.dumps(changes.pop("schema", SCHEMA)))
    for name, columns in (TABLES | changes).items():
        parquet.write_table(pa.table(columns), folder / f"{name}.parquet", compression="zstd")
    return folder


@pytest.mark.parametrize("given", ["folder", "schema", "zip"])
def test_ratings_titles_and_times_are_read(given: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "set")
    source = {"folder": folder, "schema": folder / "schema.json", "zip": tmp_path / "set.zip"}[given]
    if given == "zip":
        with zipfile.ZipFile(source, "w") as archive:
            for file in folder.iterdir():
                archive.write(file, f"set/{file.name}")

    ratings = load_ratings(source, rating_range=(0.5, 5), times=True)

    assert ratings.user_ids.tolist() == ["ann", "bob"]
    assert (ratings.item_ids.tolist(), ratings.titles) == (["4", "30"], ("Amélie", "Heat"))
    assert (ratings.users.tolist(), ratings.items.tolist()) == ([0, 0, 1], [0, 1, 0])
    assert ratings.values.tolist() == [5.0, 1.0, 3.5]
    assert ratings.times is not None
    assert ratings.times.tolist() == [9, 8, 7]


def test_the_table_of_items_is_a_catalogue_that_stands_apart_from_the_ratings(tmp_path: Path) -> None:
    ratings = load_ratings(saved(tmp_path / "set"), rating_range=(0.5, 5), catalogue="listed")

    assert ratings.item_ids.tolist() == ["4", "5", "30"]
    assert ratings.titles == ("Amélie", "item 5", "Heat")
    assert ratings.items_listed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": []}, "is no schema of a LensKit data set"),
        ({"schema": SCHEMA | {"relationships": {}}}, "names no table of users and items"),
        (
            {"schema": {"relationships": {"../x": {"entities": {"user": None, "item": None}}}}},
            "names no table of",
        ),
        (
            {"rating": TABLES["rating"] | {"item_num": [3, 0, 1]}},
            "row 1: item_num counts no row of item.parquet",
        ),
        (
            {"rating": TABLES["rating"] | {"user_num": [0, -1, 1]}},
            "row 2: user_num counts no row of user.parquet",
        ),
        ({"rating": TABLES["rating"] | {"rating": ["a", "b", "c"]}}, "the ratings in 'rating' are string"),
        ({"rating": TABLES["rating"] | {"rating": [1.0, None, 2.0]}}, "a cell of 'rating' is empty"),
        (
            {"rating": {"user_num": [0], "item_num": [0]}},
            "there is no column 'rating', only user_num, item_num",
        ),
        (
            {"rating": {n: pa.array(c).slice(0, 0) for n, c in TABLES["rating"].items()}},
            "rating.parquet is empty",
        ),
    ],
)
def test_what_is_wrong_is_told_in_a_sentence(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as told:
        load_ratings(saved(tmp_path / "set", **changes), rating_range=(0.5, 5))

    assert said in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("name", ["user", "item", "rating"])
def test_a_damaged_table_is_told_in_a_line(name: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "set") / f"{name}.parquet"
    path.write_bytes(path.read_bytes().replace(b"PAR1", b"PAR2"))

    with pytest.raises(InputError) as told:
        load_ratings(tmp_path / "set", rating_range=(0.5, 5))

    assert f"{name}.parquet" in str(told.value)
    assert "\n" not in str(told.value)


def test_a_text_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    wrong = pa.Array.from_buffers(pa.string(), 3, pa.array([b"bob", b"a\xf9", b"c"], pa.binary()).buffers())

    with pytest.raises(InputError, match=r"user\.parquet is not a readable Parquet file"):
        load_ratings(saved(tmp_path / "set", user={"user_id": wrong}), rating_range=(0.5, 5))


def test_a_table_that_is_missing_is_named(tmp_path: Path) -> None:
    folder = saved(tmp_path / "set")
    (folder / "user.parquet").unlink()

    with pytest.raises(InputError, match=r"user\.parquet cannot be read"):
        load_ratings(folder, rating_range=(0.5, 5))
