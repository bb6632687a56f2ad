"""What is wrong with shards is told in one sentence that names the file."""

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedboard.common.errors import InputError
from fedboard.simulations.data import ColumnMapping, load_ratings
from fedboard.simulations.data.sharding import ShardOptions, shard_ratings
from fedboard.simulations.data.shards import open_shards

FIRST, SECOND = "ratings-00000.parquet", "ratings-00001.parquet"
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve users with 5 of 8 items each, but for one who has none, in four shards."""
    folder = tmp_path_factory.mktemp("sound")
    users, items = np.repeat(np.delete(np.arange(12), 4), 5), np.tile([0, 2, 3, 5, 7], 11)
    np.savez(folder / "r.npz", user=users, item=items, rating=1 + (users + items) % 5, item_id=np.arange(8))
    shard_ratings(folder / "r.npz", folder / "shards", ShardOptions(shard_ratings=15))
    manifest = json.loads((folder / "shards" / "shards.json").read_text())
    assert [shard["users"] for shard in manifest["shards"]] == [3, 3, 3, 3]
    return folder / "shards"


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "shards"))


def manifest_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "shards.json").read_text())
    return found


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    (folder / "shards.json").write_text(json.dumps(manifest))


def change(folder: Path, number: int, changed: Change) -> None:
    """Write a shard anew, and the manifest so that its digest is right."""
    manifest = manifest_of(folder)
    told = manifest["shards"][number]
    path = folder / told["file"]
    table = changed(parquet.read_table(path))
    parquet.write_table(table, path)
    told |= {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "bytes": path.stat().st_size}
    write_manifest(folder, manifest)


def with_entry(table: pa.Table, name: str, at: int, value: object) -> pa.Table:
    """With another number in the place of the so-and-so-many-th of a shard."""
    lists = table.column(name).to_pylist()
    lists[at // 5][at % 5] = value
    field = table.schema.field(name)
    return table.set_column(table.schema.get_field_index(name), field, pa.array(lists, field.type))


def refused(folder: Path) -> str:
    """The sentence that reading everything ends with; the same for whoever reads a part or all of it."""
    with pytest.raises(InputError) as told:
        open_shards(folder).read(0, 12)
    sentence = str(told.value)
    assert "\n" not in sentence
    assert str(folder) in sentence
    with pytest.raises(InputError) as whole:
        load_ratings(folder)
    assert str(whole.value) == sentence
    return sentence


def test_sound_shards_are_read_by_whoever_is_handed_them(sound: Path) -> None:
    shards = open_shards(sound)
    sent = pickle.dumps(shards)

    found = pickle.loads(sent).read(3, 6)

    assert len(sent) < 600
    assert found.indptr.tolist() == [0, 5, 5, 10]
    assert found.items.tolist() == [0, 2, 3, 5, 7] * 2
    assert (found.first_row, found.n_items) == (3, 8)
    assert shards.counts(0, 12).tolist() == [5, 5, 5, 5, 0, *[5] * 7]
    assert shards.read(12, 12).n_users == 0


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 2), (0, 13)])
def test_users_that_there_are_not_are_refused(sound: Path, start: int, stop: int) -> None:
    with pytest.raises(InputError, match="and there are 0:12"):
        open_shards(sound).read(start, stop)


def flip(folder: Path) -> None:
    content = bytearray((folder / FIRST).read_bytes())
    content[len(content) // 3] ^= 1
    (folder / FIRST).write_bytes(content)


def swap_files(folder: Path) -> None:
    first, second = (folder / FIRST).read_bytes(), (folder / SECOND).read_bytes()
    (folder / FIRST).write_bytes(second)
    (folder / SECOND).write_bytes(first)


def miscount(folder: Path) -> None:
    manifest = manifest_of(folder)
    first, second = manifest["shards"][1:3]
    first["users"], second["users"] = first["users"] - 1, second["users"] + 1
    write_manifest(folder, manifest)


def count_wrong(folder: Path) -> None:
    counts = pa.array([5, 6, 4], pa.int32())
    change(folder, 0, lambda table: table.set_column(1, table.schema.field("count"), counts))


def without_values(folder: Path) -> None:
    change(folder, 0, lambda table: table.drop_columns("values"))


def with_an_empty_cell(folder: Path) -> None:
    keys = pa.array([1, None, 3], pa.uint64())
    change(folder, 0, lambda table: table.set_column(0, "key", keys))


def no_parquet(folder: Path) -> None:
    (folder / FIRST).write_bytes(b"PAR1 but not really PAR1")
    manifest = manifest_of(folder)
    manifest["shards"][0]["sha256"] = hashlib.sha256((folder / FIRST).read_bytes()).hexdigest()
    write_manifest(folder, manifest)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda folder: os.truncate(folder / SECOND, 100), "its digest differs"),
        (lambda folder: (folder / SECOND).unlink(), r"cannot be read (No such file or directory)"),
        (flip, "its digest differs"),
        (swap_files, "its digest differs"),
        (miscount, "it must hold 2 users"),
        (count_wrong, "row group 0: a user has more items or fewer than it says"),
        (without_values, "it must hold 3 users, with the columns of a shard"),
        (with_an_empty_cell, "it must hold 3 users, with the columns of a shard"),
        (no_parquet, "is not a readable Parquet file"),
    ],
)
def test_shards_that_are_not_as_the_manifest_says_are_told(
    folder: Path, broken: Callable[[Path], None], said: str
) -> None:
    broken(folder)

    assert said in refused(folder)


CELLS: dict[str, tuple[str, int, object, str]] = {
    "value off the range": ("values", 7, 6.0, "rating 8: rating 6 is outside the public rating range 1 to 5"),
    "value is NaN": ("values", 7, float("nan"), "rating 8: the rating is NaN"),
    "item beyond the catalogue": ("items", 4, 8, "an item number is none of the catalogue, 0 to 7"),
    "item below it": ("items", 0, -1, "an item number is none of the catalogue"),
    "item twice": ("items", 1, 0, "the items of a user must ascend"),
    "items out of order": ("items", 1, 4, "the items of a user must ascend"),
    "items out of order at the end": ("items", 14, 1, "the items of a user must ascend"),
}


@pytest.mark.parametrize(("name", "at", "value", "said"), CELLS.values(), ids=CELLS)
def test_a_cell_that_cannot_be_is_told(folder: Path, name: str, at: int, value: object, said: str) -> None:
    change(folder, 0, lambda table: with_entry(table, name, at, value))

    sentence = refused(folder)
    assert said in sentence
    assert FIRST in sentence


def test_items_that_changed_are_told(folder: Path) -> None:
    path = folder / "items.parquet"
    table = parquet.read_table(path)
    parquet.write_table(table[:7], path)

    with pytest.raises(InputError, match=r"items\.parquet is not the file that the manifest tells of"):
        _ = open_shards(folder).item_ids


@pytest.mark.parametrize(
    "names", [["0"] * 8, [str(n) for n in range(7)], [None, *"1234567"]], ids=["twice", "too few", "empty"]
)
def test_items_that_are_no_catalogue_are_told(folder: Path, names: list[str | None]) -> None:
    path = folder / "items.parquet"
    parquet.write_table(pa.table({"item": pa.array(names, pa.string())}), path)
    manifest = manifest_of(folder)
    manifest["items"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    write_manifest(folder, manifest)

    with pytest.raises(InputError, match=r"items\.parquet must name 8 items, each once"):
        _ = open_shards(folder).item_ids


MANIFESTS: dict[str, tuple[dict[str, Any] | str | bytes, str]] = {
    "no JSON": ("{", "is no manifest of shards"),
    "no text": (b"\xff\xfe{}", "is no manifest of shards"),
    "nested without end": ("[" * 100_000, "is no manifest of shards"),
    "another format": ({"format": "fedboard-shards-2"}, "this version of fedboard reads 'fedboard-shards-1'"),
    "an unknown key": ({"more": 1}, "is no manifest of shards"),
    "a wrong type": ({"users": "12"}, "is no manifest of shards"),
    "other users": ({"users": 13}, "the users of all shards are not as many"),
    "other ratings": ({"ratings": 1}, "the ratings of all shards are not as many"),
    "a shard of nobody": (
        {
            "users": 0,
            "ratings": 0,
            "shards": [{"file": FIRST, "bytes": 9, "sha256": "", "users": 0, "ratings": 0}],
        },
        "users and items must be 1 to",
    ),
    "no users": ({"users": 0, "ratings": 0, "shards": []}, "users and items must be 1 to"),
    "a range that is none": ({"rating_range": [5, 1]}, "the rating range must be two numbers"),
    "a file elsewhere": (
        {"items": {"file": "../x", "sha256": "", "count": 8, "titles": False}},
        "items must be called",
    ),
}


@pytest.mark.parametrize(("wrong", "said"), MANIFESTS.values(), ids=MANIFESTS)
def test_a_manifest_that_is_none_is_told(
    folder: Path, wrong: dict[str, Any] | str | bytes, said: str
) -> None:
    path = folder / "shards.json"
    if isinstance(wrong, dict):
        write_manifest(folder, manifest_of(folder) | wrong)
    else:
        path.write_bytes(wrong if isinstance(wrong, bytes) else wrong.encode())

    with pytest.raises(InputError) as told:
        open_shards(folder)
    assert said in str(told.value)
    assert str(path) in str(told.value)


@pytest.mark.parametrize("name", ["../ratings-00000.parquet", "/etc/passwd", "ratings-00001.parquet"])
def test_shards_lie_in_the_folder_and_each_is_named_once_in_order(folder: Path, name: str) -> None:
    manifest = manifest_of(folder)
    manifest["shards"][0]["file"] = name
    write_manifest(folder, manifest)

    with pytest.raises(
        InputError, match=r"shards must be called ratings-00000\.parquet and so on, in this order"
    ):
        open_shards(folder)


def test_whoever_holds_a_handle_is_told_that_the_shards_are_others(folder: Path) -> None:
    held = pickle.loads(pickle.dumps(open_shards(folder)))
    manifest = manifest_of(folder)
    (folder / "new").write_text(json.dumps(manifest | {"name": "other"}))
    (folder / "new").rename(folder / "shards.json")

    with pytest.raises(InputError, match="holds other shards than when it was opened"):
        held.read(0, 1)


def test_options_that_shards_state_themselves_are_refused(folder: Path) -> None:
    for asked in ({"rating_range": (0.0, 5.0)}, {"columns": ColumnMapping()}):
        with pytest.raises(InputError, match="says itself which columns, rating range and titles there are"):
            load_ratings(folder, **asked)

    assert load_ratings(folder, rating_range=(1.0, 5.0)).n_users == 12


def test_only_shards_that_are_needed_are_opened(folder: Path) -> None:
    shards = open_shards(folder)
    (folder / SECOND).unlink()

    assert shards.read(0, 3).n_ratings == 15
    assert shards.read(9, 12).n_ratings == 15


def test_times_that_are_not_there_are_told(folder: Path) -> None:
    with pytest.raises(InputError, match="do not say when anything was rated"):
        open_shards(folder).times(0, 1)
    with pytest.raises(InputError, match="do not say when anything was rated"):
        load_ratings(folder, times=True)
