"""Features of items on a board: kept exactly, checked where they come from elsewhere, part of the terms."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.client.participation.promises import terms_of
from fedboard.common.board import Board, Catalogue
from fedboard.common.errors import InputError
from fedboard.common.item_features import CatalogueFeatures

N_ITEMS = 300


def features(n_items: int = N_ITEMS, *, seed: int = 0) -> CatalogueFeatures:
    rng = np.random.default_rng(seed)
    years = rng.integers(1920, 2025, (n_items, 1)).astype(np.float32)
    years[-1] = np.nan
    return CatalogueFeatures(
        number_names=("year",),
        numbers=years,
        label_names=("genres: Drama", "genres: Comédie"),
        labels=(rng.random((n_items, 2)) < 0.4).astype(np.uint8),
    )


def board(told: CatalogueFeatures | None) -> Board:
    catalogue = Catalogue(item_ids=tuple(map(str, range(N_ITEMS))), features=told)
    factors = np.random.default_rng(1).standard_normal((N_ITEMS, 4)).astype(np.float32)
    return Board(version=3, task="t", config={"a": 1}, arrays={"item_factors": factors}, catalogue=catalogue)


def again(one: Board) -> Board:
    return Board.from_bytes(np.frombuffer(one.to_bytes(), dtype=np.uint8))


def test_a_board_carries_features_and_its_digest_covers_them() -> None:
    plain, told = board(None), board(features())

    read = again(told)

    assert read.catalogue == told.catalogue
    assert read.digest == told.digest
    assert again(plain).catalogue.features is None
    changed = features()
    labels = changed.labels.copy()
    labels[0, 0] ^= 1
    assert len({plain.digest, told.digest, board(replace(changed, labels=labels)).digest}) == 3
    assert replace(told, catalogue=told.catalogue.without_features, _digest=[]).digest == plain.digest


def test_features_are_part_of_the_terms_that_a_device_remembers() -> None:
    plain, one, other = (terms_of(board(told)) for told in (None, features(), features(seed=1)))

    assert len({plain, one, other}) == 3
    assert terms_of(again(board(features()))) == one


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"numbers": np.zeros((2, 1), np.float64)}, "float32"),
        ({"numbers": np.zeros((3, 1), np.float32)}, "a row per item"),
        ({"number_names": ("a", "b")}, "a name per column"),
        ({"labels": np.full((2, 1), 2, np.uint8)}, "0 or 1"),
        ({"numbers": np.full((2, 1), np.inf, np.float32)}, "finite"),
        (
            {
                "number_names": (),
                "numbers": np.zeros((2, 0), np.float32),
                "label_names": (),
                "labels": np.zeros((2, 0), np.uint8),
            },
            "1 to 256",
        ),
        (
            {"labels": np.zeros((2, 256), np.uint8), "label_names": tuple(map(str, range(256)))},
            "1 to 256 item features or none, got 257",
        ),
    ],
)
def test_what_are_no_features_is_refused(change: dict[str, object], message: str) -> None:
    given: dict[str, object] = {
        "number_names": ("a",),
        "numbers": np.zeros((2, 1), np.float32),
        "label_names": ("b",),
        "labels": np.zeros((2, 1), np.uint8),
    }
    CatalogueFeatures(**given)  # type: ignore[arg-type]

    with pytest.raises(InputError, match=message):
        CatalogueFeatures(**{**given, **change})  # type: ignore[arg-type]


def test_a_catalogue_needs_a_row_per_item() -> None:
    with pytest.raises(InputError, match="2 rows for 1 items"):
        Catalogue(item_ids=("1",), features=features(2))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"genres: Drama"', b"7              "),  # a name that is none
        (b'"year"], [', b'"year"]]  '),  # one list of names
        (b"catalogue/labels", b"catalogue/babels"),  # half of it
        (b'"shape":[300,1]', b'"shape":[1,300]'),  # of another catalogue
        (np.float32(np.nan).tobytes(), np.float32(np.inf).tobytes()),
    ],
)
def test_a_board_with_features_that_cannot_be_is_no_board(old: bytes, new: bytes) -> None:
    content = board(features()).to_bytes()
    assert old in content
    broken = content.replace(old, new)

    with pytest.raises(InputError, match="not a complete fedboard board"):
        Board.from_bytes(np.frombuffer(broken, dtype=np.uint8))
