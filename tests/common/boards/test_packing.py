"""Smaller forms of a board file: exact where they say so, as close as they say where not, strict to read."""

import json
import zlib
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest

from fedboard.common.board import Board
from fedboard.common.boards import packing
from fedboard.common.boards.manifest import Encoding
from fedboard.common.boards.packing import pack, restored_hashes
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from tests.common.boards.boards import N_ITEMS, certified, chain, first_board

ROUNDED = (Encoding.FLOAT16, Encoding.INT8)


def as_file(board):
    return np.frombuffer(board.to_bytes(), dtype=np.uint8)


def packed(board, encoding, **options):
    return pack(as_file(board), encoding, approximates=board.digest, **options)


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

    smaller = packed(board, Encoding.PACKED)

    assert unpack(smaller.content, board_size=len(board.to_bytes())) == board.to_bytes()
    assert len(smaller.content) < 0.8 * len(board.to_bytes())


def test_float16_is_the_nearest_16_bit_number():
    board = first_board()

    rounded = opened(packed(board, Encoding.FLOAT16).board_file)

    exact = board.arrays["item_factors"]
    np.testing.assert_array_equal(rounded.arrays["item_factors"], exact.astype(np.float16).astype(np.float32))
    assert rounded.arrays["item_factors"].dtype == np.float32


def int8_excess(board, rounded) -> float:
    """How far the worst number is beyond half a step of its row plus the rounding of the step itself."""
    exact = board.arrays["item_factors"].astype(np.float64)
    step = np.abs(exact).max(axis=1, keepdims=True) / 127
    allowed = step * (0.5 + 127 * 2.0**-11)
    return float((np.abs(rounded.arrays["item_factors"] - exact) / allowed).max())


def test_int8_is_within_half_a_step_of_the_items_own_scale():
    board = first_board()

    rounded = opened(packed(board, Encoding.INT8).board_file)

    assert int8_excess(board, rounded) <= 1.0
    coarser = np.rint(board.arrays["item_factors"] * 20) / 20  # what a test of nothing would let pass too
    assert int8_excess(board, replace(rounded, arrays={"item_factors": coarser})) > 1.0


@pytest.mark.parametrize("encoding", ROUNDED)
@pytest.mark.parametrize("wild", [np.nan, np.inf, 1e6, -1e30])
def test_numbers_that_cannot_be_rounded_travel_exactly(encoding, wild):
    wild_factors = np.array(first_board().arrays["item_factors"])
    wild_factors[3, 1] = wild
    board = with_arrays(item_factors=wild_factors)

    rounded = opened(packed(board, encoding).board_file)

    np.testing.assert_array_equal(rounded.arrays["item_factors"], wild_factors)


@pytest.mark.parametrize("encoding", ROUNDED)
def test_means_item_marks_and_the_catalogue_stay_exact(encoding):
    board = first_board()

    rounded = opened(packed(board, encoding).board_file)

    assert rounded.catalogue == board.catalogue
    for name in ("mean", "learnt"):
        np.testing.assert_array_equal(rounded.arrays[name], board.arrays[name])


@pytest.mark.parametrize("encoding", ROUNDED)
def test_an_item_without_a_vector_stays_without_one(encoding):
    silent = np.array(first_board().arrays["item_factors"])
    silent[5] = 0.0

    rounded = opened(packed(with_arrays(item_factors=silent), encoding).board_file)

    assert not rounded.arrays["item_factors"][5].any()


@pytest.mark.parametrize("encoding", ROUNDED)
def test_an_approximation_says_of_which_board_and_carries_that_ones_certificate(encoding):
    """So that its reader can work out what its noise is; the certificate names the exact board, not this one."""
    board = certified(first_board())

    content = packed(board, encoding).board_file

    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header["__metadata__"]["approximates"] == board.digest
    assert opened(content).approximates == board.digest
    assert opened(content).certificate == opened(board.to_bytes()).certificate
    assert opened(content).digest != board.digest


@pytest.mark.parametrize("encoding", list(Encoding)[1:])
def test_what_the_reader_has_is_left_out_and_put_back(encoding):
    older, newer = chain(2, n_items=3 * N_ITEMS)
    old_file = np.frombuffer(packed(older, encoding).board_file, dtype=np.uint8)
    before, after = restored_hashes(as_file(older), encoding), restored_hashes(as_file(newer), encoding)
    held = frozenset(name for name in after if before[name] == after[name])

    whole, since = packed(newer, encoding), packed(newer, encoding, held=held)

    assert {"array/item_counts", "catalogue/titles"} <= held
    assert "array/item_factors" not in held
    assert len(since.content) < 0.8 * len(whole.content)
    assert unpack(since.content, board_size=len(whole.board_file), base=old_file) == whole.board_file


def test_another_base_than_the_one_that_was_meant_is_noticed():
    older, newer = chain(2)
    since = packed(newer, Encoding.PACKED, held=frozenset({"array/item_counts"}))
    other = with_arrays(item_counts=np.array(older.arrays["item_counts"]) + 1)

    for base in (None, as_file(other)):
        with pytest.raises(FeedRefusedError) as refused:
            unpack(since.content, board_size=len(newer.to_bytes()), base=base)
        assert refused.value.code is FeedCode.WRONG_DIGEST


@pytest.mark.slow
def test_a_small_stream_that_would_become_huge_is_refused_without_making_it():
    board = with_arrays(extra=np.zeros(50_000_000 // 8))
    smaller = packed(board, Encoding.PACKED).content
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
    smaller = packed(first_board(), Encoding.PACKED)
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
        unpack(with_contents(smaller.content, one_huge_one_negative), board_size=len(smaller.board_file))
    assert refused.value.code is FeedCode.MALFORMED


def test_an_array_that_ends_early_with_bytes_behind_it_is_refused_at_once():
    """Its stream gave nothing more for ever, and kept what stood behind it again each time."""
    smaller = packed(first_board(), Encoding.PACKED)

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
        unpack(with_contents(smaller.content, one_number_more), board_size=len(smaller.board_file))
    assert refused.value.code is FeedCode.MALFORMED


def test_a_header_of_endless_nesting_is_refused():
    smaller = packed(first_board(), Encoding.PACKED)
    deep = with_contents(smaller.content, lambda contents: contents.update(header='{"a":' * 5000))

    with pytest.raises(FeedRefusedError) as refused:
        unpack(deep, board_size=len(smaller.board_file))
    assert refused.value.code is FeedCode.MALFORMED


def test_no_damage_of_a_packed_file_does_anything_but_refuse_or_change_the_board():
    board = first_board()
    smaller = packed(board, Encoding.INT8)
    generator = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(smaller.content)
        damaged[generator.integers(len(damaged))] ^= 1 << int(generator.integers(8))
        try:
            found = unpack(bytes(damaged), board_size=len(smaller.board_file))
        except FeedRefusedError:
            continue
        assert len(found) == len(smaller.board_file)
    for length in (0, 7, 8, 15, 16, 200, len(smaller.content) - 1):
        with pytest.raises(FeedRefusedError):
            unpack(smaller.content[:length], board_size=len(smaller.board_file))


def test_with_int8_numbers_that_are_no_matrix_keep_eight_significant_bits():
    counts = np.concatenate([np.geomspace(1e-3, 6.5e4, 500), -np.geomspace(1e-3, 6.5e4, 500), np.zeros(200)])
    counts[0] = 65504.0  # the largest of its kind: nothing becomes infinite
    board = with_arrays(item_counts=np.resize(counts, first_board().catalogue.n_items))

    exact = np.array(board.arrays["item_counts"])
    found = {e: opened(packed(board, e).board_file).arrays["item_counts"] for e in ROUNDED}

    np.testing.assert_allclose(found[Encoding.INT8], exact, rtol=2**-8 + 2**-11)
    np.testing.assert_allclose(found[Encoding.FLOAT16], exact, rtol=2**-11)
    assert not np.allclose(found[Encoding.INT8], exact, rtol=2**-10, atol=0)
