"""BLAKE2b of many short texts at once: the decimal digits of whole numbers, several in the lanes of a vector."""

from typing import Any, Final

import numpy as np
from numba import types

from fedboard.common.arrays import BitArray, IntArray
from fedboard.common.kernels.compiled.tiles import lanes_of
from fedboard.common.kernels.compiled.vectors import Emitter, int64
from fedboard.common.kernels.compiling import compiled, emitted, reading, writing

_WORDS: Final = 3
"""Of eight bytes: the digits of 64 bits need no more, and the other thirteen words of the block are 0."""
_ORDER: Final = (
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
)
"""Which word of the message each half step adds (RFC 7693, section 2.7)."""
_PLACES: Final = (
    [0, 4, 8, 12],
    [1, 5, 9, 13],
    [2, 6, 10, 14],
    [3, 7, 11, 15],
    [0, 5, 10, 15],
    [1, 6, 11, 12],
    [2, 7, 8, 13],
    [3, 4, 9, 14],
)
"""Which words of the state each step mixes (the same, section 3.2)."""
_CONSTANTS: Final = (
    *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
    *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
)
_ZERO, _EIGHT, _ASCII = np.uint64(0), np.uint64(8), np.uint64(48)


@emitted
def _hash_messages(typing_context: Any, message: Any, state: Any, keys: Any) -> Any:
    """A whole block of BLAKE2b in each lane, unrolled: what is left of it after eight bytes.

    Takes the ``_WORDS`` words of each message that may be other than 0 and its length behind them, a vector each,
    and the initial state; writes a vector of keys.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words, initial, out = (
            Emitter(context, builder, kind, argument)
            for kind, argument in zip((message, state, keys), arguments, strict=True)
        )
        told = [words.load(int64(number * words.lanes)) for number in range(_WORDS + 1)]
        constants = [words.splat(int64(constant)) for constant in _CONSTANTS]
        v = [initial.load_splat(int64(place)) for place in range(8)] + constants
        first = v[0]
        v[12] = builder.xor(v[12], told[_WORDS])
        v[14] = builder.not_(v[14])  # the only block is the last one
        for order in _ORDER:
            for step, (a, b, c, d) in enumerate(_PLACES):
                for word, one_turn, other_turn in ((order[2 * step], 32, 24), (order[2 * step + 1], 16, 63)):
                    v[a] = builder.add(v[a], v[b])
                    if word < _WORDS:
                        v[a] = builder.add(v[a], told[word])
                    v[d] = words.turned_right(builder.xor(v[d], v[a]), one_turn)
                    v[c] = builder.add(v[c], v[d])
                    v[b] = words.turned_right(builder.xor(v[b], v[c]), other_turn)
        out.store(builder.xor(first, builder.xor(v[0], v[8])), int64(0))
        return context.get_dummy_value()

    return types.void(message, state, keys), emit


@compiled()
def _write_digits(number: int, message: BitArray, lanes: int, lane: int) -> None:
    """Put the decimal text of a number, and behind its words its length, into one lane of the messages."""
    size, left = 1, np.uint64(number)
    rest = left // np.uint64(10)
    while rest:
        size += 1
        rest //= np.uint64(10)
    for word in range(_WORDS):
        message[word * lanes + lane] = _ZERO
    for place in range(size - 1, -1, -1):
        digit = left % np.uint64(10) + _ASCII
        left //= np.uint64(10)
        message[(place >> 3) * lanes + lane] |= digit << (np.uint64(place & 7) * _EIGHT)
    message[_WORDS * lanes + lane] = np.uint64(size)


@compiled(reading("int64", 1), reading("uint64", 1), writing("uint64", 1))
def fill_keys(ids: IntArray, state: BitArray, keys: BitArray) -> None:
    """The first eight bytes of BLAKE2b of each number's decimal text.

    Args:
        ids: int64, shape (n,), >= 0.
        state: uint64, shape (8,): the initial state with its parameters.
        keys: uint64, shape (n,): filled in.
    """
    lanes = lanes_of(keys)
    message, found = np.zeros((_WORDS + 1) * lanes, np.uint64), np.empty(lanes, np.uint64)
    for start in range(0, ids.size, lanes):
        n = min(lanes, ids.size - start)
        for lane in range(lanes):
            _write_digits(ids[start + min(lane, n - 1)], message, lanes, lane)
        _hash_messages(message, state, found)
        for lane in range(n):
            keys[start + lane] = found[lane]
