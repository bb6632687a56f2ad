"""BLAKE2b of many short texts at once: the decimal digits of whole numbers, several in the lanes of a vector."""

from typing import Final

import numpy as np

from fedboard.common.arrays import BitArray, IntArray
from fedboard.common.kernels.compiling import compiled, reading, writing

_LANES: Final = 8
_ROUNDS: Final = 12
_ORDER: Final = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    ],
    dtype=np.int64,
)
"""Which word of the message each half step adds (RFC 7693, section 2.7)."""
_PLACES: Final = np.array(
    [
        [0, 4, 8, 12],
        [1, 5, 9, 13],
        [2, 6, 10, 14],
        [3, 7, 11, 15],
        [0, 5, 10, 15],
        [1, 6, 11, 12],
        [2, 7, 8, 13],
        [3, 4, 9, 14],
    ],
    dtype=np.int64,
)
_CONSTANTS: Final = np.array(
    [
        *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
        *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
    ],
    dtype=np.uint64,
)
_ALL, _ZERO, _EIGHT, _ASCII = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0), np.uint64(8), np.uint64(48)
_R32, _R24, _R16, _R63, _WORD = (np.uint64(bits) for bits in (32, 24, 16, 63, 64))


@compiled()
def _half(
    v: BitArray,
    places: IntArray,
    message: BitArray,
    word: int,
    one_turn: np.uint64,
    other_turn: np.uint64,
) -> None:
    """Half of G in all lanes: two sums, and two rotations to the right (RFC 7693, section 3.1)."""
    a, b, c, d = places[0], places[1], places[2], places[3]
    for lane in range(_LANES):
        first = v[a, lane] + v[b, lane] + message[word, lane]
        turned = v[d, lane] ^ first
        turned = (turned >> one_turn) | (turned << (_WORD - one_turn))
        third = v[c, lane] + turned
        second = v[b, lane] ^ third
        v[a, lane], v[d, lane], v[c, lane] = first, turned, third
        v[b, lane] = (second >> other_turn) | (second << (_WORD - other_turn))


@compiled()
def _write_digits(number: int, message: BitArray, lane: int) -> int:
    """Put the decimal text of a number into the message; returns its length."""
    size, left = 1, np.uint64(number)
    rest = left // np.uint64(10)
    while rest:
        size += 1
        rest //= np.uint64(10)
    message[0, lane] = message[1, lane] = message[2, lane] = _ZERO
    for place in range(size - 1, -1, -1):
        digit = left % np.uint64(10) + _ASCII
        left //= np.uint64(10)
        message[place >> 3, lane] |= digit << (np.uint64(place & 7) * _EIGHT)
    return size


@compiled(reading("int64", 1), reading("uint64", 1), writing("uint64", 1))
def fill_keys(ids: IntArray, state: BitArray, keys: BitArray) -> None:
    """The first eight bytes of BLAKE2b of each number's decimal text.

    Args:
        ids: int64, shape (n,), >= 0.
        state: uint64, shape (8,): the initial state with its parameters.
        keys: uint64, shape (n,): filled in.
    """
    v = np.empty((16, _LANES), np.uint64)
    message = np.zeros((16, _LANES), np.uint64)
    for start in range(0, ids.size, _LANES):
        n = min(_LANES, ids.size - start)
        for lane in range(_LANES):
            size = _write_digits(ids[start + min(lane, n - 1)], message, lane)
            for place in range(8):
                v[place, lane], v[place + 8, lane] = state[place], _CONSTANTS[place]
            v[12, lane] ^= np.uint64(size)
            v[14, lane] ^= _ALL
        for turn in range(_ROUNDS):
            for step in range(8):
                places = _PLACES[step]
                _half(v, places, message, _ORDER[turn, 2 * step], _R32, _R24)
                _half(v, places, message, _ORDER[turn, 2 * step + 1], _R16, _R63)
        for lane in range(n):
            keys[start + lane] = state[0] ^ v[0, lane] ^ v[8, lane]
