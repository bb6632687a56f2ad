"""A packed board file: the same bytes again, and never more than were stated."""

import gzip
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest

from fedboard.common.boards import layout as packing
from fedboard.common.boards.layout import pack
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from tests.common.boards.boards import first_board

BOARD_FILE = first_board().to_bytes()


def unpack(content: bytes, size: int = len(BOARD_FILE)) -> bytes:
    return b"".join(packing.unpack(BytesIO(content), board_size=size))


def refused(content: bytes, size: int = len(BOARD_FILE)) -> bool:
    with pytest.raises(FeedRefusedError) as error:
        unpack(content, size)
    return error.value.code is FeedCode.MALFORMED


def test_a_packed_board_becomes_the_same_file_byte_for_byte():
    board = first_board()
    larger = replace(board, arrays={**board.arrays, "zeros": np.zeros(500_000)}, _digest=[]).to_bytes()

    for content in (BOARD_FILE, larger, np.random.default_rng(0).bytes(200_000)):
        assert unpack(pack(content), len(content)) == content
        assert gzip.decompress(pack(content)) == content
    assert pack(BOARD_FILE) == pack(BOARD_FILE)
    assert len(pack(BOARD_FILE)) < 0.8 * len(BOARD_FILE)


def test_a_small_stream_that_would_become_huge_is_refused_without_making_it():
    sizes, most = list[int](), 100_000
    pieces = packing.unpack(BytesIO(pack(bytes(50_000_000))), board_size=most)

    with pytest.raises(FeedRefusedError):
        sizes.extend(map(len, pieces))
    assert sum(sizes) <= most


@pytest.mark.parametrize(
    "content",
    [
        pack(BOARD_FILE[:-1]),
        pack(BOARD_FILE + b"\0"),
        pack(BOARD_FILE) + b"\0",
        pack(BOARD_FILE) + pack(b""),
        BOARD_FILE,
        b"",
    ],
    ids=["less", "more", "more behind it", "a second stream", "not packed", "nothing"],
)
def test_what_is_not_just_this_stream_is_refused(content):
    assert refused(content)


def test_damage_is_refused_or_changes_nothing_but_the_board():
    smaller = pack(BOARD_FILE)
    generator = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(smaller)
        damaged[generator.integers(len(damaged))] ^= 1 << int(generator.integers(8))
        try:
            found = unpack(bytes(damaged))
        except FeedRefusedError:
            continue
        assert len(found) == len(BOARD_FILE)
    assert all(refused(smaller[:length]) for length in (1, 9, 10, 200, len(smaller) - 1))
