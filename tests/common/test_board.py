"""The board file: one immutable public object, whole or not there at all."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.board import Board, Catalogue
from fedboard.common.errors import InputError


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
