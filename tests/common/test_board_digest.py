"""The digest of a board covers every field and every bit of every cell; whoever changes one is found out."""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.client.boards.cache import require_digest
from fedboard.common.board import Board, Catalogue
from fedboard.common.errors import FedboardError

ARRAYS: dict[str, Any] = {
    "item_factors": np.linspace(-1.0, 1.0, 70 * 3, dtype=np.float32).reshape(70, 3),
    "item_counts": np.arange(70, dtype=np.float64),
    "order": np.arange(70, dtype=np.int32),
    "numbers": np.arange(4, dtype=np.int64),
    "learnt": np.zeros(70, dtype=np.uint8),
    "mean": np.array([3.5]),
}
CATALOGUE = Catalogue(
    item_ids=tuple(str(k) for k in range(70)), titles=tuple(f"title {k}" for k in range(70))
)
BOARD = Board(
    version=3,
    task="adadpals",
    config={"rank": 3, "noise_multipliers": {"counts": 20.0}, "levels": [1, 2.5, None]},
    arrays=ARRAYS,
    catalogue=CATALOGUE,
    previous_digest="ab" * 32,
)
assert CATALOGUE.titles is not None
TITLES = CATALOGUE.titles
CHANGES: dict[str, dict[str, Callable[[], Board]]] = {
    "version": {"one up": lambda: replace(BOARD, version=4, _digest=[])},
    "task": {"another": lambda: replace(BOARD, task="residual", _digest=[])},
    "config": {
        "a number": lambda: configured(rank=4),
        "its type": lambda: configured(rank=3.0),
        "one inside": lambda: configured(noise_multipliers={"counts": 20.000000000000004}),
        "in a list": lambda: configured(levels=[1, 2.5, 0]),
        "the order of a list": lambda: configured(levels=[2.5, 1, None]),
        "one more": lambda: configured(also=None),
        "one less": lambda: replace(BOARD, config={"rank": 3}, _digest=[]),
    },
    "arrays": {
        "one more": lambda: with_arrays({**ARRAYS, "extra": np.zeros(0)}),
        "one less": lambda: with_arrays({n: a for n, a in ARRAYS.items() if n != "mean"}),
        "another name": lambda: with_arrays({("Mean" if n == "mean" else n): a for n, a in ARRAYS.items()}),
        "two swapped": lambda: with_arrays({**ARRAYS, "learnt": ARRAYS["mean"], "mean": ARRAYS["learnt"]}),
        "another shape": lambda: with_arrays(
            {**ARRAYS, "item_factors": ARRAYS["item_factors"].reshape(3, 70)}
        ),
        "another type of the same bytes": lambda: with_arrays(
            {**ARRAYS, "item_counts": ARRAYS["item_counts"].view(np.int64)}
        ),
        "minus zero": lambda: with_arrays(
            {**ARRAYS, "item_counts": np.where(ARRAYS["order"] == 0, -0.0, ARRAYS["item_counts"])}
        ),
    },
    "catalogue": {
        "an id": lambda: listed(item_ids=("00", *CATALOGUE.item_ids[1:])),
        "two ids swapped": lambda: listed(item_ids=("1", "0", *CATALOGUE.item_ids[2:])),
        "a title": lambda: listed(titles=(*TITLES[:-1], "Title 69")),
        "no titles": lambda: listed(titles=None),
        "ids joined otherwise": lambda: listed(item_ids=('0","1', *CATALOGUE.item_ids[1:])),
    },
    "previous_digest": {
        "another": lambda: replace(BOARD, previous_digest="ab" * 31 + "ac", _digest=[]),
        "none": lambda: replace(BOARD, previous_digest=None, _digest=[]),
    },
}
NOT_COVERED = {"certificate", "_digest"}
"""The certificate states the digest, so it cannot be in it; it has a digest of its own."""


def configured(**changes: Any) -> Board:
    return replace(BOARD, config={**BOARD.config, **changes}, _digest=[])


def with_arrays(arrays: dict[str, Any]) -> Board:
    return replace(BOARD, arrays=arrays, _digest=[])


def listed(**changes: Any) -> Board:
    return replace(BOARD, catalogue=replace(CATALOGUE, **changes), _digest=[])


def flipped(name: str, byte: int, bit: int) -> Board:
    """One bit of one cell."""
    changed = ARRAYS[name].copy()
    changed.reshape(-1).view(np.uint8)[byte] ^= np.uint8(1 << bit)
    return with_arrays({**ARRAYS, name: changed})


def assert_told_apart(changed: Board, folder: Path) -> None:
    """The digest differs, and readers refuse the changed content under the certificate of the old."""
    assert changed.digest != BOARD.digest
    path = folder / "forged.board"
    changed.with_certificate({"board_digest": BOARD.digest}).save(path)
    with pytest.raises(FedboardError):
        require_digest(path, Board.load(path))


def test_every_field_of_a_board_is_changed_here() -> None:
    assert {field.name for field in fields(Board)} == set(CHANGES) | NOT_COVERED


@pytest.mark.parametrize(("field", "change"), [(f, c) for f, kinds in CHANGES.items() for c in kinds])
def test_changing_any_field_changes_the_digest_and_is_refused(
    field: str, change: str, tmp_path: Path
) -> None:
    assert_told_apart(CHANGES[field][change](), tmp_path)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(ARRAYS)), bit=st.integers(0, 7))
def test_one_bit_of_one_cell_changes_the_digest(data: st.DataObject, name: str, bit: int) -> None:
    byte = data.draw(st.integers(0, ARRAYS[name].nbytes - 1))

    assert flipped(name, byte, bit).digest != BOARD.digest


@pytest.mark.parametrize("name", sorted(ARRAYS))
@pytest.mark.parametrize("place", [0, -1])
def test_the_first_and_the_last_bit_of_an_array_are_refused_when_changed(
    name: str, place: int, tmp_path: Path
) -> None:
    byte = place % ARRAYS[name].nbytes

    assert_told_apart(flipped(name, byte, 0 if place == 0 else 7), tmp_path)


def test_what_was_not_changed_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "own.board"
    BOARD.with_certificate({"board_digest": BOARD.digest}).save(path)

    require_digest(path, Board.load(path))
