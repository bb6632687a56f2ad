"""What is wrong with shards is told in one sentence that names the file, whoever wrote them."""

import hashlib
import json
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
from fedboard.simulations.datasets import ColumnMapping, load_ratings
from fedboard.simulations.datasets.shards import open_shards
from fedboard.simulations.streams.shards import ShardOptions, shard_ratings

FIRST, SECOND = "ratings-00000.parquet", "ratings-00001.parquet"
Change = Callable[[pa.Table], list[pa.Table]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve users with 5 of 8 items each, but for one who has none, in four shards."""
    folder = tmp_path_factory.mktemp("sound")
    users, items = np.repeat(np.delete(np.arange(12), 4), 5), np.tile([0, 2, 3, 5, 7], 11)
    np.savez(folder / "r.npz", user=users, item=items, rating=1 + (users + items) % 5, item_id=np.arange(8))
    shard_ratings(folder / "r.npz", folder / "shards", ShardOptions(shard_ratings=15))
    manifest = json.loads((folder / "shards" / "shards.json").read_text())
    assert [len(shard["groups"]) for shard in manifest["shards"]] == [1, 1, 1, 1]
    return folder / "shards"


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "shards"))


def manifest_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "shards.json").read_text())
    return found


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    (folder / "shards.json").write_text(json.dumps(manifest))


def change(folder: Path, number: int, changed: Change, *, groups: list[dict[str, int]] | None = None) -> None:
    """Write a shard anew, and the manifest so that its digest is right."""
    manifest = manifest_of(folder)
    told = manifest["shards"][number]
    path = folder / told["file"]
    tables = changed(parquet.read_table(path))
    if groups is None and len(tables) == 1:
        rows = [group["ratings"] + group["without_ratings"] for group in told["groups"]]
        starts = [sum(rows[:at]) for at in range(len(rows))]
        tables = [tables[0].slice(start, count) for start, count in zip(starts, rows, strict=True)]
    with parquet.ParquetWriter(path, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    told |= {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "bytes": path.stat().st_size}
    told["groups"] = groups if groups is not None else told["groups"]
    write_manifest(folder, manifest)


def with_column(table: pa.Table, name: str, at: int, value: object) -> list[pa.Table]:
    cells = table.column(name).to_pylist()
    cells[at] = value
    column = table.schema.get_field_index(name)
    field = pa.field(name, table.schema.field(name).type)
    return [table.set_column(column, field, pa.array(cells, field.type))]


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

    assert len(sent) < 400
    assert found.indptr.tolist() == [0, 5, 5, 10]
    assert found.items.tolist() == [0, 2, 3, 5, 7] * 2
    assert (found.first_row, found.n_items) == (3, 8)
    assert shards.counts(0, 12).tolist() == [5, 5, 5, 5, 0, *[5] * 7]
    assert shards.read(12, 12).n_users == 0


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 2), (0, 13)])
def test_users_that_there_are_not_are_refused(sound: Path, start: int, stop: int) -> None:
    with pytest.raises(InputError, match="and there are 0:12"):
        open_shards(sound).read(start, stop)


def test_a_file_that_was_cut_is_told(folder: Path) -> None:
    path = folder / SECOND
    path.write_bytes(path.read_bytes()[:-40])

    assert "its digest differs" in refused(folder)


def test_a_file_that_is_gone_is_told(folder: Path) -> None:
    (folder / SECOND).unlink()

    assert "cannot be read (No such file or directory)" in refused(folder)


def test_one_changed_byte_is_told(folder: Path) -> None:
    path = folder / FIRST
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)

    assert "its digest differs" in refused(folder)


def test_shards_in_another_order_are_told(folder: Path) -> None:
    manifest = manifest_of(folder)
    manifest["shards"][:2] = manifest["shards"][1::-1]
    write_manifest(folder, manifest)

    assert "must begin with user 0" in refused(folder)


def test_a_user_in_two_row_groups_is_told(folder: Path) -> None:
    groups = [{"users": 2, "ratings": 8}, {"users": 1, "ratings": 7}]
    change(folder, 0, lambda table: [table[:8], table[8:]], groups=groups)

    sentence = refused(folder)
    assert "row group 1: it must begin with user 2" in sentence
    assert "split over two row groups" in sentence


def test_a_number_of_users_that_is_another_is_told(folder: Path) -> None:
    manifest = manifest_of(folder)
    first, second = (shard["groups"][0] for shard in manifest["shards"][1:3])
    first["users"], second["users"] = first["users"] - 1, second["users"] + 1
    write_manifest(folder, manifest)

    assert "it must hold 2 users" in refused(folder)


CELLS: dict[str, tuple[str, int, object, str]] = {
    "value off the range": ("value", 7, 6.0, "rating 8: rating 6 is outside the public rating range 1 to 5"),
    "value is NaN": ("value", 7, float("nan"), "rating 8: the rating is NaN"),
    "item beyond the catalogue": ("item", 4, 8, "an item number is none of the catalogue, 0 to 7"),
    "item below it": ("item", 0, -1, "an item number is none of the catalogue"),
    "item twice": ("item", 1, 0, "the items of a user must ascend"),
    "items out of order": ("item", 1, 4, "the items of a user must ascend"),
    "items out of order at the end": ("item", 14, 1, "the items of a user must ascend"),
    "user goes back": ("user", 6, 0, "users must stand in the order of their numbers"),
    "user left out": ("user", 14, 4, "users must stand in the order of their numbers"),
    "user far off": ("user", 0, -(2**63), "it must begin with user 0"),
    "key of another": ("key", 6, 1, "all rows of a user must have the same key"),
    "key changes late": ("key", 14, 1, "all rows of a user must have the same key"),
    "empty key": ("key", 3, None, "the key of a user is empty"),
    "empty user": ("user", 3, None, "the number of a user is empty"),
    "empty item": ("item", 3, None, "0 cells of 'item' must be empty"),
    "empty value": ("value", 3, None, "0 cells of 'value' must be empty"),
}


@pytest.mark.parametrize(("name", "at", "value", "said"), CELLS.values(), ids=CELLS)
def test_a_cell_that_cannot_be_is_told(folder: Path, name: str, at: int, value: object, said: str) -> None:
    change(folder, 0, lambda table: with_column(table, name, at, value))

    sentence = refused(folder)
    assert said in sentence
    assert FIRST in sentence


@pytest.mark.parametrize("name", ["user", "key", "item", "value"])
@pytest.mark.parametrize("how", ["of another type", "missing", "twice"])
def test_a_column_that_is_not_as_it_must_be_is_told(folder: Path, name: str, how: str) -> None:
    def changed(table: pa.Table) -> list[pa.Table]:
        at = table.schema.get_field_index(name)
        if how == "missing":
            return [table.drop_columns([name])]
        if how == "twice":
            return [table.append_column(name, table.column(name))]
        return [table.set_column(at, name, pa.array([1] * len(table), pa.int16()))]

    change(folder, 0, changed)
    sentence = refused(folder)
    assert f"the column {name!r} must be" in sentence
    assert {"of another type": "is int16", "missing": "is missing", "twice": " and "}[how] in sentence


def test_other_numbers_of_rows_are_told(folder: Path) -> None:
    change(folder, 0, lambda table: [table[:14]])

    assert "other numbers of rows than the manifest says" in refused(folder)


def test_no_parquet_file_is_told(folder: Path) -> None:
    (folder / FIRST).write_bytes(b"PAR1 but not really PAR1")
    manifest = manifest_of(folder)
    manifest["shards"][0]["sha256"] = hashlib.sha256((folder / FIRST).read_bytes()).hexdigest()
    write_manifest(folder, manifest)

    assert "is not a readable Parquet file" in refused(folder)


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
    "other users": ({"users": 13}, "the users of all row groups are not as many"),
    "other ratings": ({"ratings": 1}, "the ratings of all row groups are not as many"),
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
def test_shards_lie_in_the_folder_and_each_is_named_once(folder: Path, name: str) -> None:
    manifest = manifest_of(folder)
    manifest["shards"][0]["file"] = name
    write_manifest(folder, manifest)

    with pytest.raises(
        InputError, match=r"shards must be called ratings-00000\.parquet and so on, each once"
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


def test_files_that_changed_places_are_told(folder: Path) -> None:
    (folder / FIRST).rename(folder / "x")
    (folder / SECOND).rename(folder / FIRST)
    (folder / "x").rename(folder / SECOND)

    assert "its digest differs" in refused(folder)


def test_an_empty_row_is_the_only_one_of_its_user(folder: Path) -> None:
    number = next(
        n for n, one in enumerate(manifest_of(folder)["shards"]) if one["groups"][0]["without_ratings"]
    )
    table = parquet.read_table(folder / f"ratings-{number:05d}.parquet")
    empty = table.column("item").to_pylist().index(None)

    def moved(table: pa.Table) -> list[pa.Table]:
        (filled,) = with_column(table, "item", empty, 3)
        (filled,) = with_column(filled, "value", empty, 3.0)
        (filled,) = with_column(filled, "item", empty + 2, None)
        return with_column(filled, "value", empty + 2, None)

    change(folder, number, moved)
    assert "an empty row must be the only one of its user" in refused(folder)


def test_item_and_value_are_empty_together(folder: Path) -> None:
    number = next(
        n for n, one in enumerate(manifest_of(folder)["shards"]) if one["groups"][0]["without_ratings"]
    )

    def half(table: pa.Table) -> list[pa.Table]:
        empty = table.column("item").to_pylist().index(None)
        (filled,) = with_column(table, "value", empty, 3.0)
        return with_column(filled, "value", empty + 1, None)

    change(folder, number, half)
    assert "must be empty in the same rows" in refused(folder)


def test_a_group_with_numbers_that_cannot_be_is_told(folder: Path) -> None:
    manifest = manifest_of(folder)
    first, second = (shard["groups"][0] for shard in manifest["shards"][:2])
    second["users"] += first["users"]
    first["users"] = 0
    write_manifest(folder, manifest)

    with pytest.raises(InputError, match="row group 0 of all cannot have these numbers"):
        open_shards(folder)


def test_times_that_are_not_there_are_told(folder: Path) -> None:
    with pytest.raises(InputError, match="do not say when anything was rated"):
        open_shards(folder).times(0, 1)
    with pytest.raises(InputError, match="do not say when anything was rated"):
        load_ratings(folder, times=True)
