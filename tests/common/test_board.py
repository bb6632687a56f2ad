"""The board file: one immutable public object, whole or not there at all.

The digest of a board covers every field and every bit of every cell; whoever changes one is found out.
"""

import json
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
from fedboard.common.errors import FedboardError, InputError


def a_board(n_items: int = 3) -> Board:
    return Board(
        version=1,
        task="adadpals",
        config={"rank": 2},
        arrays={
            "item_factors": np.arange(2 * n_items, dtype=np.float32).reshape(n_items, 2),
            "learnt": np.ones(n_items, dtype=np.uint8),
            "mean": np.array([3.5]),
        },
        catalogue=Catalogue(item_ids=tuple(map(str, range(n_items))), titles=("Ä", "b", "c")[:n_items]),
    )


def test_a_saved_board_is_read_back_as_it_was(tmp_path: Path) -> None:
    board = a_board().with_certificate({"claim": {"epsilon": 1.0}})

    board.save(tmp_path / "b.board")
    read = Board.load(tmp_path / "b.board")

    assert read.digest == board.digest
    assert read.catalogue == board.catalogue
    assert read.certificate == {"claim": {"epsilon": 1.0}}
    assert {n: a.dtype for n, a in read.arrays.items()} == {n: a.dtype for n, a in board.arrays.items()}
    for name, value in board.arrays.items():
        np.testing.assert_array_equal(read.arrays[name], value)


def test_the_file_is_readable_by_the_safetensors_library(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    a_board().save(tmp_path / "b.board")

    arrays = safetensors.load_file(tmp_path / "b.board")

    np.testing.assert_array_equal(arrays["array/item_factors"], a_board().arrays["item_factors"])
    assert json.loads(arrays["catalogue/titles"].tobytes()) == ["Ä", "b", "c"]


def test_the_digest_covers_content_and_history_but_not_the_certificate() -> None:
    board = a_board()
    changed = board.successor(mean=np.array([3.6]))

    assert board.with_certificate({"x": 1}).digest == board.digest
    assert changed.digest != board.successor(mean=np.array([3.7])).digest
    assert changed.previous_digest == board.digest
    assert changed.version == 2


@pytest.mark.parametrize("kept", [0, 4, 8, 60, 200, -1])
def test_a_board_that_was_cut_short_is_refused(tmp_path: Path, kept: int) -> None:
    a_board().save(tmp_path / "b.board")
    content = (tmp_path / "b.board").read_bytes()
    (tmp_path / "cut.board").write_bytes(content[:kept])

    with pytest.raises(InputError, match=r"cut\.board"):
        Board.load(tmp_path / "cut.board")


def misplaced(content: bytes, **arrays: list[int]) -> bytes:
    """The same file, whose header says that these arrays are elsewhere in it."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    for name, offsets in arrays.items():
        entry = header[f"array/{name}"]
        entry["data_offsets"] = offsets
        entry["shape"] = [offsets[1] - offsets[0]]
    encoded = json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + content[8 + length :]


def test_arrays_that_share_bytes_are_refused(tmp_path: Path) -> None:
    """Else a file of one megabyte could name them a million times, and each name costs them once more."""
    content = a_board().to_bytes()
    path = tmp_path / "b.board"
    path.write_bytes(misplaced(content, learnt=[24, 27]))
    assert Board.load(path).arrays["learnt"].tolist() == [1, 1, 1]

    for place in ([23, 26], [0, 1], [0, 27]):
        path.write_bytes(misplaced(content, learnt=place))
        with pytest.raises(InputError, match="overlap"):
            Board.load(path)


def test_bytes_that_belong_to_no_array_are_refused(tmp_path: Path) -> None:
    """What nobody reads nobody checks: neither digest nor certificate covers it."""
    path, content = tmp_path / "b.board", a_board().to_bytes()
    for more in (content + b"\0", content + b"more of it", misplaced(content, learnt=[25, 27])):
        path.write_bytes(more)
        with pytest.raises(InputError, match="leave bytes out"):
            Board.load(path)


@pytest.mark.parametrize("content", [b"not a board at all, but long enough to look", b"\xff" * 64])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)

    with pytest.raises(InputError, match="board"):
        Board.load(tmp_path / "other")


def test_saving_leaves_no_partial_file(tmp_path: Path) -> None:
    a_board().save(tmp_path / "b.board")

    assert [path.name for path in tmp_path.iterdir()] == ["b.board"]


def test_a_catalogue_needs_a_title_for_each_item_or_none() -> None:
    with pytest.raises(InputError, match="2 titles for 1"):
        Catalogue(item_ids=("1",), titles=("a", "b"))


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
