"""The board cache: whole and unchanged boards, the newest first, or none."""

from pathlib import Path

import numpy as np
import pytest

from fedboard.client.boards.cache import BoardCache, open_board
from fedboard.common.board import Board
from fedboard.common.errors import InputError
from tests.client.certified_boards import put


@pytest.fixture
def cache(tmp_path: Path) -> BoardCache:
    return BoardCache(tmp_path / "boards")


def later(board: Board) -> Board:
    return board.successor(item_factors=np.asarray(board.arrays["item_factors"]) + np.float32(0.5))


def arrived(cache: BoardCache, content: bytes) -> Path:
    place = cache.folder / "arriving"
    place.write_bytes(content)
    return place


def test_the_newest_board_wins_whatever_the_order_of_arrival(cache: BoardCache, board: Board) -> None:
    second, third = later(board), later(later(board))
    for arrived in (second, third, board):
        put(cache, arrived)

    assert cache.newest().digest == third.digest
    assert [kept.version for kept in cache.boards()] == [3, 4, 5]
    assert cache.load(board.digest).version == 3
    assert cache.holds(second.digest)
    assert not cache.holds("0" * 64)
    assert open_board(cache.folder).digest == third.digest


def test_a_board_that_is_not_the_one_announced_is_not_kept(cache: BoardCache, board: Board) -> None:
    other = later(board)
    with pytest.raises(InputError, match="this is not board"):
        cache.adopt(arrived(cache, other.to_bytes()), digest=board.digest)
    with pytest.raises(InputError, match="not a complete fedboard board"):
        cache.adopt(arrived(cache, board.to_bytes()[:-1]), digest=board.digest)
    with pytest.raises(InputError):
        cache.adopt(arrived(cache, b""), digest=board.digest)
    assert list(cache.folder.iterdir()) == []


@pytest.mark.parametrize("at", [-1, -200, 5, 30])
def test_a_board_that_was_damaged_on_disk_is_never_used(cache: BoardCache, board: Board, at: int) -> None:
    put(cache, board)
    newest = later(board)
    place = put(cache, newest)
    content = bytearray(place.read_bytes())
    content[at] ^= 0x41
    place.write_bytes(content)

    with pytest.raises(InputError):
        open_board(cache.folder)
    assert cache.newest().digest == board.digest
    assert not place.exists()  # so that it is fetched again
    with pytest.raises(InputError, match="not in this cache"):
        cache.load(newest.digest)


def test_a_damaged_board_that_is_asked_for_by_digest_is_deleted(cache: BoardCache, board: Board) -> None:
    place = put(cache, board)
    place.write_bytes(b"")
    with pytest.raises(InputError):
        cache.load(board.digest)
    assert not cache.holds(board.digest)
    with pytest.raises(InputError, match="no board in this cache"):
        cache.newest()


def test_the_oldest_go_where_room_is_short_and_the_newest_stays(tmp_path: Path, board: Board) -> None:
    boards = [board, later(board), later(later(board))]
    cache = BoardCache(tmp_path / "small", max_bytes=sum(len(kept.to_bytes()) for kept in boards[1:]))
    for arrived in boards:
        put(cache, arrived)
    assert [kept.version for kept in cache.boards()] == [4, 5]

    tiny = BoardCache(tmp_path / "small", max_bytes=1)
    put(tiny, later(boards[-1]))
    assert [kept.version for kept in tiny.boards()] == [6]


def test_a_board_of_a_run_is_held_against_its_certificate(tmp_path: Path, board: Board) -> None:
    place = tmp_path / "board-0003.board"
    board.with_certificate({"board_digest": board.digest}).save(place)
    assert open_board(place).digest == board.digest

    later(board).with_certificate({"board_digest": board.digest}).save(place)
    with pytest.raises(InputError, match="not the one that its certificate states"):
        open_board(place)
