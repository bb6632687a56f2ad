"""The ratings of many users in plain arrays: as they were written, in any catalogue, and nothing unsound."""

import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.client.ratings.cohort_file import CohortFile, write_cohort
from fedboard.common.board import Board, Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from tests.common.algorithms.conftest import N_ITEMS, a_prepared_board, a_task, population

IDS = tuple(map(str, range(N_ITEMS)))
COHORT = replace(population(), first_row=100)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_cohort(tmp_path / "cohort", COHORT, IDS)
    return tmp_path / "cohort"


@pytest.fixture
def board() -> Board:
    return a_prepared_board(a_task())


def as_dicts(cohort: Cohort, ids: tuple[str, ...]) -> list[dict[str, float]]:
    rows = (cohort.rows(user, user + 1) for user in range(cohort.n_users))
    return [dict(zip((ids[i] for i in row.items), row.ratings.tolist(), strict=True)) for row in rows]


def test_it_is_read_as_it_was_written(folder: Path, board: Board) -> None:
    own = CohortFile.open(folder).cohort(board)

    for name in ("indptr", "items", "ratings"):
        np.testing.assert_array_equal(getattr(own, name), getattr(COHORT, name))
    assert own.first_row == 100
    assert isinstance(own.items, np.memmap)  # nothing is copied
    assert CohortFile.open(folder, first_row=7).cohort(board).first_row == 7
    assert CohortFile.open(folder).n_users == COHORT.n_users


def test_keys_of_users_stay_with_their_rows(tmp_path: Path, board: Board) -> None:
    keys = np.random.default_rng(0).integers(0, 2**64, COHORT.n_users, dtype=np.uint64)
    write_cohort(tmp_path / "keyed", replace(COHORT, user_keys=keys).rows(3, 9), IDS)
    other = replace(board, catalogue=Catalogue(item_ids=IDS[::-1]), _digest=[])

    stored = CohortFile.open(tmp_path / "keyed")
    for own in (stored.cohort(board), stored.cohort(other), stored.cohort(board).rows(0, 6)):
        np.testing.assert_array_equal(own.keys, keys[3:9])
        np.testing.assert_array_equal(own.where(own.ratings > 3).keys, keys[3:9])
    assert COHORT.keys.tolist() == list(range(100, 100 + COHORT.n_users))  # where there are none: row numbers


def test_a_part_of_a_cohort_is_written_whole(tmp_path: Path, board: Board) -> None:
    part = Cohort(
        indptr=COHORT.indptr[3:9], items=COHORT.items, ratings=COHORT.ratings, n_items=N_ITEMS, first_row=3
    )
    write_cohort(tmp_path / "part", part, IDS)

    own = CohortFile.open(tmp_path / "part").cohort(board)
    assert as_dicts(own, IDS) == as_dicts(COHORT, IDS)[3:8]


def test_what_is_written_is_its_owners_alone_also_over_files_that_were_open(tmp_path: Path) -> None:
    place = tmp_path / "open"
    place.mkdir(mode=0o755)
    for name in ("items.npy", "cohort.json"):
        (place / name).touch(mode=0o644)
    write_cohort(place, COHORT, IDS)

    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.iterdir()} == {0o600}
    assert len(list(place.iterdir())) == 4


def test_in_another_catalogue_each_user_keeps_what_it_names(folder: Path, board: Board) -> None:
    ids = ("new", *reversed(IDS[5:]))
    other = replace(board, catalogue=Catalogue(item_ids=ids), _digest=[])

    own = CohortFile.open(folder).cohort(other)

    expected = [{i: r for i, r in row.items() if i in ids} for row in as_dicts(COHORT, IDS)]
    assert as_dicts(own, ids) == expected
    assert own.first_row == 100
    assert all(np.all(np.diff(own.rows(u, u + 1).items) > 0) for u in range(own.n_users))


def test_ratings_off_the_public_range_are_left_out(tmp_path: Path, board: Board) -> None:
    ratings = COHORT.ratings.copy()
    ratings[::3] = 7.0
    write_cohort(tmp_path / "odd", replace(COHORT, ratings=ratings), IDS)

    own = CohortFile.open(tmp_path / "odd").cohort(board)
    expected = COHORT.where(ratings <= 5.0)
    np.testing.assert_array_equal(own.indptr, expected.indptr)
    np.testing.assert_array_equal(own.items, expected.items)


def test_users_without_any_rating_are_a_cohort_too(tmp_path: Path, board: Board) -> None:
    empty = COHORT.where(np.zeros(COHORT.n_ratings, dtype=bool))
    write_cohort(tmp_path / "empty", empty, IDS)

    own = CohortFile.open(tmp_path / "empty").cohort(board)
    assert (own.n_users, own.n_ratings) == (COHORT.n_users, 0)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"indptr": COHORT.indptr[::-1]}, "indptr must ascend"),
        ({"indptr": np.append(COHORT.indptr, 10**6)}, "indptr must ascend"),
        ({"items": COHORT.items + N_ITEMS}, "numbers of the listed item ids"),
        ({"items": COHORT.items - 1}, "numbers of the listed item ids"),
        ({"items": COHORT.items[::-1]}, "ascend within a row"),
        ({"ratings": COHORT.ratings * np.float32(np.nan)}, "finite"),
        ({"first_row": -1}, "first_row"),
    ],
)
def test_an_unsound_cohort_is_neither_written_nor_read(
    tmp_path: Path, folder: Path, fields: dict[str, Any], says: str
) -> None:
    unsound = replace(COHORT, **fields)
    with pytest.raises(InputError, match=says):
        write_cohort(tmp_path / "unsound", unsound, IDS)
    assert not (tmp_path / "unsound").exists()
    for name in ("indptr", "items", "ratings"):
        np.save(folder / f"{name}.npy", getattr(unsound, name))
    with pytest.raises(InputError, match=says):
        CohortFile.open(folder, first_row=fields.get("first_row"))


@pytest.mark.parametrize("ids", [IDS[:-1], (*IDS[:-1], "0")])
def test_ids_and_numbers_must_fit_together(tmp_path: Path, ids: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="all different"):
        write_cohort(tmp_path / "cohort", COHORT, ids)


def _header(**fields: Any) -> Callable[[Path], Any]:
    return lambda folder: (folder / "cohort.json").write_text(
        json.dumps({"format": 1, "item_ids": list(IDS), **fields})
    )


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / "items.npy").unlink(), "items.npy: cannot be read"),
        (lambda folder: (folder / "items.npy").write_bytes(b"no array"), "items.npy: cannot be read"),
        (
            lambda folder: (folder / "items.npy").write_bytes((folder / "items.npy").read_bytes()[:-8]),
            "items.npy: cannot be read",
        ),
        (lambda folder: np.save(folder / "items.npy", COHORT.items.astype(np.int64)), "one column of int32"),
        (lambda folder: np.save(folder / "ratings.npy", COHORT.ratings[:-1]), "one shape"),
        (lambda folder: (folder / "cohort.json").unlink(), "no cohort can be read"),
        (lambda folder: (folder / "cohort.json").write_text("{"), "cohort.json cannot be read"),
        (_header(format=2), "format 2"),
        (_header(extra=1), "extra"),
        (_header(item_ids=["0"] * N_ITEMS), "listed twice"),
    ],
)
def test_a_damaged_folder_is_refused(folder: Path, damage: Callable[[Path], Any], says: str) -> None:
    damage(folder)
    with pytest.raises(InputError, match=says):
        CohortFile.open(folder)


def test_no_code_is_read_from_a_folder(folder: Path) -> None:
    np.save(folder / "ratings.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be read"):
        CohortFile.open(folder)
