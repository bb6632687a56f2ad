"""The random words of made-up people: each belongs to one person, or to one item, and to nothing else.

Everything is whole numbers modulo 2^64, so that a word is the same on every machine and with every version of
NumPy. No secret rests on them.
"""

from typing import Final

import numpy as np

from fedboard.common.arrays import BitArray, IntArray
from fedboard.common.per_user.mixing import mix64

STRIDE: Final = 0x9E3779B97F4A7C15
"""Between the states of a stream, as in splitmix64."""
ACTIVITY, LEVEL, FIRST_TASTE, FIRST_CANDIDATE, FIRST_RATING = 0, 1, 2, 64, 1 << 40
"""Which words of her stream say how much a person rates, how high, what she likes, what she comes across, and (from
``FIRST_RATING`` on, by the number of the item) what moves her on the day that she rates it."""
_OF_PEOPLE, _OF_ITEMS, _OF_ORDER = 0x70656F706C65, 0x6974656D73, 0x6F72646572
"""Set the three kinds of word of one seed apart."""
_FIELDS: Final = 0xFFFF
CENTRE: Final = 2 * _FIELDS
"""Of the sum of four fields of 16 bits."""
BELL_DEVIATION: Final = (((1 << 32) - 1) / 3) ** 0.5
"""Standard deviation of ``bell``."""


def seed_word(seed: int) -> BitArray:
    """What the words of all people follow from; uint64, shape (1,)."""
    return _of_kind(seed, _OF_PEOPLE)


def streams_of(base: BitArray, start: int, stop: int) -> BitArray:
    """The stream of each person ``start:stop``, uint64, shape (stop - start,).

    Args:
        base: of ``seed_word``.
        start: number of the first person.
        stop: one past the last.
    """
    return mix64(base ^ mix64(np.arange(start, stop, dtype=np.uint64)))


def word(stream: BitArray, number: int | IntArray) -> BitArray:
    """The so-and-so-many-th word of a stream, uint64; both broadcast."""
    with np.errstate(over="ignore"):
        return mix64(stream + np.asarray(number, dtype=np.uint64) * np.uint64(STRIDE))


def item_words(seed: int, numbers: IntArray, kind: int) -> BitArray:
    """A word of each kind for each item, uint64, shape (n,).

    Args:
        seed: of the people.
        numbers: of the items, shape (n,).
        kind: 0, 1, ...: which word.
    """
    return word(mix64(_of_kind(seed, _OF_ITEMS) ^ mix64(numbers.astype(np.uint64))), kind)


def order_of_items(seed: int, n_items: int) -> IntArray:
    """How popular each item is: a permutation, 0 the most popular; int64, shape (n_items,)."""
    words = word(_of_kind(seed, _OF_ORDER), np.arange(n_items, dtype=np.int64))
    found = np.empty(n_items, dtype=np.int64)
    found[np.argsort(words, kind="stable")] = np.arange(n_items, dtype=np.int64)
    return found


def bell(words: BitArray) -> IntArray:
    """A bell-shaped whole number of each word: the sum of its four fields of 16 bits less its mean; int64.

    Its standard deviation is 2^16 / sqrt(3) (to 1e-9), and it never lies further out than 3.46 of them.
    """
    shifts = (np.uint64(shift) for shift in (0, 16, 32, 48))
    fields = sum((words >> shift) & np.uint64(_FIELDS) for shift in shifts)
    return np.asarray(fields, dtype=np.uint64).astype(np.int64) - CENTRE


def scaled(bells: IntArray, spread: int | IntArray) -> IntArray:
    """``bells * spread / 2^16``, rounded down: standard deviation ``spread / sqrt(3)``; int64."""
    found: IntArray = (bells * spread) >> 16
    return found


def _of_kind(seed: int, kind: int) -> BitArray:
    return mix64(mix64(np.asarray([seed], dtype=np.uint64)) ^ np.uint64(kind))
