"""What made-up people rate, compiled: some ten million ratings in a second.

Inner products of tastes are sums of whole numbers below 2^24 in float32, so that they are exact in any order.
"""

from typing import Any

import numpy as np
from llvmlite import ir

from fedboard.common.arrays import BitArray, Float32Array, IndexArray, IntArray
from fedboard.common.kernels.compiled.panels import mix
from fedboard.common.kernels.compiled.vectors import Value, emitted, inner_product
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, writing
from fedboard.simulations.data.synthetic import people_tables as words
from fedboard.simulations.data.synthetic.people_tables import ACCEPTED, LEAST_ACCEPTED, TASTES

_STRIDE = np.uint64(words.STRIDE)
_S16, _S32, _S40, _S48 = (np.uint64(bits) for bits in (16, 32, 40, 48))
_FIELD, _DITHER, _ONE, _ZERO = np.uint64(0xFFFF), np.uint64(0xFFF), np.uint64(1), np.uint64(0)
_ACTIVITY, _LEVEL = words.ACTIVITY, words.LEVEL
_FIRST_TASTE, _FIRST_CANDIDATE, _FIRST_RATING = words.FIRST_TASTE, words.FIRST_CANDIDATE, words.FIRST_RATING
_CENTRE = words.CENTRE
_UNIT = 1 << 16


@emitted(INTEGER)
def _trailing_zeros(builder: Any, word: Value) -> Value:
    """How many zero bits stand below the lowest one of a word that is not zero."""
    return builder.cttz(word, ir.IntType(1)(1))


@compiled()
def _stream(base: np.uint64, person: int) -> np.uint64:
    return mix(base ^ mix(np.uint64(person)))


@compiled()
def _word(stream: np.uint64, number: int | np.int64) -> np.uint64:
    return mix(stream + np.uint64(number) * _STRIDE)


@compiled()
def _bell(word: np.uint64, spread: int) -> np.int64:
    total = (word & _FIELD) + ((word >> _S16) & _FIELD) + ((word >> _S32) & _FIELD) + (word >> _S48)
    return ((np.int64(total) - _CENTRE) * spread) >> 16


@compiled(
    *(reading("uint64", 1), reading("int64", 2), reading("int64", 1), INTEGER, writing("int64", 1)),
)
def fill_counts(base: BitArray, knots: IntArray, numbers: IntArray, start: int, counts: IntArray) -> None:
    """How much the people from ``start`` on rate; arguments as in ``Tables``."""
    for row in range(counts.size):
        word = _word(_stream(base[0], start + row), _ACTIVITY)
        level = np.int64(word >> _S40)
        place = knots.shape[1] - 2
        while knots[0, place] * 256 > level:
            place -= 1
        low, high = knots[0, place] * 256, knots[0, place + 1] * 256
        beyond = knots[1, place] + (level - low) * (knots[1, place + 1] - knots[1, place]) // (high - low)
        found = numbers[0] + ((beyond + np.int64(word & _DITHER)) >> 12)
        counts[row] = min(found, numbers[1])


@compiled()
def _take(item: np.int64, bits: BitArray, summary: BitArray) -> bool:
    """Mark an item; whether it was not marked before."""
    place, bit = item >> 6, _ONE << np.uint64(item & 63)
    if bits[place] & bit:
        return False
    bits[place] |= bit
    summary[place >> 6] |= _ONE << np.uint64(place & 63)
    return True


@compiled()
def _collect(bits: BitArray, summary: BitArray, items: IndexArray, first: int) -> None:
    """Write the marked items in their order, and take the marks away."""
    at = first
    for group in range(summary.size):
        filled = summary[group]
        while filled:
            place = group * 64 + _trailing_zeros(filled)
            filled &= filled - _ONE
            marked = bits[place]
            while marked:
                items[at] = np.int32(place * 64 + _trailing_zeros(marked))
                at += 1
                marked &= marked - _ONE
            bits[place] = _ZERO
        summary[group] = _ZERO


@compiled()
def _choose(
    stream: np.uint64,
    wanted: int,
    keep: IntArray,
    other: IndexArray,
    taste: Float32Array,
    own: Float32Array,
    numbers: IntArray,
    bits: BitArray,
    summary: BitArray,
) -> None:
    """Mark the items that one person rates."""
    n_items, drawn_to, found, item = keep.size, numbers[8], 0, np.int64(0)
    for number in range(wanted * numbers[9]):
        word = _word(stream, _FIRST_CANDIDATE + number)
        place = np.int64(((word >> _S32) * np.uint64(n_items)) >> _S32)
        stays = np.int64((word >> _S16) & _FIELD) < keep[place]
        item = place if stays else np.int64(other[place])
        liking = np.int64(inner_product(taste, item * TASTES, own, 0, TASTES))
        chance = min(max(ACCEPTED + ((liking * drawn_to) >> 10), LEAST_ACCEPTED), _UNIT)
        if np.int64(word & _FIELD) < chance and _take(item, bits, summary):
            found += 1
            if found == wanted:
                return
    while found < wanted:
        item = (item + 1) % n_items
        if _take(item, bits, summary):
            found += 1


@compiled(
    *(reading("uint64", 1), reading("int64", 1), reading("int32", 1), reading("int32", 1)),
    *(reading("float32", 1), reading("int64", 1), reading("int64", 1), INTEGER, reading("int64", 1)),
    *(writing("int32", 1), writing("float32", 1)),
)
def fill_rows(
    base: BitArray,
    keep: IntArray,
    other: IndexArray,
    level: IndexArray,
    taste: Float32Array,
    numbers: IntArray,
    taste_spreads: IntArray,
    start: int,
    indptr: IntArray,
    items: IndexArray,
    ratings: Float32Array,
) -> None:
    """What the people from ``start`` on rate, and how; arguments as in ``Tables``.

    ``items`` (ascending in a row) and ``ratings`` are filled in, where ``indptr`` (from 0) says whose each is.
    """
    bits = np.zeros((keep.size + 63) >> 6, np.uint64)
    summary = np.zeros((bits.size + 63) >> 6, np.uint64)
    own = np.empty(TASTES, np.float32)
    for row in range(indptr.size - 1):
        stream = _stream(base[0], start + row)
        for direction in range(TASTES):
            own[direction] = np.float32(
                _bell(_word(stream, _FIRST_TASTE + direction), taste_spreads[direction])
            )
        first, wanted = indptr[row], indptr[row + 1] - indptr[row]
        _choose(stream, wanted, keep, other, taste, own, numbers, bits, summary)
        _collect(bits, summary, items, first)
        usual = _bell(_word(stream, _LEVEL), numbers[2])
        active = np.int64(_word(stream, _ACTIVITY) >> _S48) - _UNIT // 2
        usual -= (active * numbers[10]) >> 16
        for k in range(first, first + wanted):
            item = np.int64(items[k])
            score = usual + np.int64(level[item])
            score += np.int64(inner_product(taste, item * TASTES, own, 0, TASTES))
            score += _bell(_word(stream, _FIRST_RATING + item), numbers[3])
            stars = 1
            for cut in range(4):
                stars += numbers[4 + cut] <= score
            ratings[k] = np.float32(stars)
