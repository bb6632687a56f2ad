"""The smaller form of a board file: exact, and strict to read."""

import json
import zlib
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.boards import packing
from fedboard.common.boards.packing import array_hashes, pack
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from tests.common.boards.boards import N_ITEMS, chain, first_board


def as_file(board):
    return np.frombuffer(board.to_bytes(), dtype=np.uint8)


def packed(board, **options):
    return pack(as_file(board), **options)


def unpack(content: bytes, **options) -> bytes:
    return b"".join(packing.unpack(BytesIO(content), **options))


def opened(content: bytes) -> Board:
    return Board.from_bytes(np.frombuffer(content, dtype=np.uint8))


def with_arrays(**arrays):
    board = first_board()
    return replace(board, arrays={**board.arrays, **arrays}, _digest=[])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8])
def test_a_packed_board_becomes_the_same_file_byte_for_byte(dtype):
    board = with_arrays(extra=np.arange(999).astype(dtype), empty=np.zeros((0, 3), dtype=dtype))

    smaller = packed(board)

    assert unpack(smaller, board_size=len(board.to_bytes())) == board.to_bytes()
    assert len(smaller) < 0.8 * len(board.to_bytes())


def test_what_the_reader_has_is_left_out_and_put_back():
    older, newer = chain(2, n_items=3 * N_ITEMS)
    before, after = array_hashes(as_file(older)), array_hashes(as_file(newer))
    held = frozenset(name for name in after if before[name] == after[name])

    whole, since = packed(newer), packed(newer, held=held)

    assert {"array/item_counts", "catalogue/titles"} <= held
    assert "array/item_factors" not in held
    assert len(since) < 0.8 * len(whole)
    assert unpack(since, board_size=len(newer.to_bytes()), base=as_file(older)) == newer.to_bytes()


def test_another_base_than_the_one_that_was_meant_is_noticed():
    older, newer = chain(2)
    since = packed(newer, held=frozenset({"array/item_counts"}))
    other = with_arrays(item_counts=np.array(older.arrays["item_counts"]) + 1)

    for base in (None, as_file(other)):
        with pytest.raises(FeedRefusedError) as refused:
            unpack(since, board_size=len(newer.to_bytes()), base=base)
        assert refused.value.code is FeedCode.WRONG_DIGEST


@pytest.mark.slow
def test_a_small_stream_that_would_become_huge_is_refused_without_making_it():
    board = with_arrays(extra=np.zeros(50_000_000 // 8))
    smaller = packed(board)
    contents = int.from_bytes(smaller[8:12], "little")
    lying = zlib.compress(zlib.decompress(smaller[16 : 16 + contents]).replace(b"50000000", b"00000080"))
    forged = (
        smaller[:8] + len(lying).to_bytes(4, "little") + smaller[12:16] + lying + smaller[16 + contents :]
    )

    for content in (smaller, forged):
        with pytest.raises(FeedRefusedError) as refused:
            unpack(content, board_size=100_000)
        assert refused.value.code is FeedCode.MALFORMED


def with_contents(content: bytes, change) -> bytes:
    """A packed file that says something else of what is in it: what the holder of the key could sign."""
    length = int.from_bytes(content[8:12], "little")
    contents = json.loads(zlib.decompress(content[16 : 16 + length]))
    change(contents)
    plain = json.dumps(contents).encode()
    deflated = zlib.compress(plain)
    lengths = len(deflated).to_bytes(4, "little") + len(plain).to_bytes(4, "little")
    return content[:8] + lengths + deflated + content[16 + length :]


def test_no_array_has_a_negative_size_that_makes_room_for_another_one():
    """The sizes together were held against what was signed, so one below zero let another one take all memory."""
    smaller = packed(first_board())
    huge = 1 << 50

    def one_huge_one_negative(contents):
        header = json.loads(contents["header"])
        first, second = contents["parts"][:2]
        for part, size in ((first, huge), (second, first["size"] + second["size"] - huge)):
            header[part["name"]] |= {"dtype": "U8", "shape": [size]}
            part["size"] = size
        before = len(contents["header"])
        contents["header"] = json.dumps(header)
        contents["parts"][2]["size"] -= len(contents["header"]) - before

    with pytest.raises(FeedRefusedError) as refused:
        unpack(with_contents(smaller, one_huge_one_negative), board_size=len(first_board().to_bytes()))
    assert refused.value.code is FeedCode.MALFORMED


def test_an_array_that_ends_early_with_bytes_behind_it_is_refused_at_once():
    """Its stream gave nothing more for ever, and kept what stood behind it again each time."""
    smaller = packed(first_board())

    def one_number_more(contents):
        header, place = (
            json.loads(contents["header"]),
            [p["name"] for p in contents["parts"]].index("array/item_counts"),
        )
        counts, after = contents["parts"][place : place + 2]
        header[counts["name"]]["shape"] = [N_ITEMS + 1]
        counts["size"] += 8
        counts["packed"] += after["packed"]
        text = json.dumps(header)
        after["size"] -= 8 + len(text) - len(contents["header"])
        contents["header"] = text

    with pytest.raises(FeedRefusedError) as refused:
        unpack(with_contents(smaller, one_number_more), board_size=len(first_board().to_bytes()))
    assert refused.value.code is FeedCode.MALFORMED


def test_a_header_of_endless_nesting_is_refused():
    smaller = packed(first_board())
    deep = with_contents(smaller, lambda contents: contents.update(header='{"a":' * 5000))

    with pytest.raises(FeedRefusedError) as refused:
        unpack(deep, board_size=len(first_board().to_bytes()))
    assert refused.value.code is FeedCode.MALFORMED


def test_no_damage_of_a_packed_file_does_anything_but_refuse_or_change_the_board():
    board = first_board()
    smaller = packed(board)
    generator = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(smaller)
        damaged[generator.integers(len(damaged))] ^= 1 << int(generator.integers(8))
        try:
            found = unpack(bytes(damaged), board_size=len(first_board().to_bytes()))
        except FeedRefusedError:
            continue
        assert len(found) == len(first_board().to_bytes())
    for length in (0, 7, 8, 15, 16, 200, len(smaller) - 1):
        with pytest.raises(FeedRefusedError):
            unpack(smaller[:length], board_size=len(first_board().to_bytes()))
