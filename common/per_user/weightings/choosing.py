"""Choosing some items of each user: those with the smallest keys, whoever makes the keys."""

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray
from fedboard.common.cohort import Cohort
from fedboard.common.per_user.mixing import mix64

_KEY_BITS = 48
_KEY_MASK = np.uint64((1 << _KEY_BITS) - 1)
_ROWS_PER_BLOCK = 1 << (64 - _KEY_BITS)


def smallest_in_row(cohort: Cohort, keys: BitArray, number: int) -> BoolArray:
    """Mark the ``number`` smallest keys of each row; keys are below 2^48 and distinct within a row.

    Sorting one word of (row in its block, key) and reading each row's threshold is several times faster than
    a sort that carries positions.
    """
    chosen = np.empty(cohort.n_ratings, dtype=np.bool_)
    for start in range(0, cohort.n_users, _ROWS_PER_BLOCK):
        block = cohort.rows(start, min(start + _ROWS_PER_BLOCK, cohort.n_users))
        first = int(cohort.indptr[start] - cohort.indptr[0])
        row_of = block.user_of_entry()
        words = keys[first : first + block.n_ratings] | (row_of.astype(np.uint64) << np.uint64(_KEY_BITS))
        ranked = np.sort(words)
        last = block.indptr[:-1] + np.minimum(block.counts, number) - 1
        threshold = ranked[np.maximum(last, 0)] if ranked.size else np.zeros(block.n_users, dtype=np.uint64)
        chosen[first : first + block.n_ratings] = words <= threshold[row_of]
    return chosen


def random_keys(cohort: Cohort, seed: int) -> BitArray:
    """Keys below 2^48 that order each row at random: a function of seed, the user's key and the item.

    Items of one row get distinct keys, since adding a row constant and mixing are both one to one.
    """
    row_keys = mix64(mix64(np.array([seed], dtype=np.uint64)) + cohort.keys) & _KEY_MASK
    return _mix48(np.repeat(row_keys, cohort.counts) + cohort.items.astype(np.uint64))


def _mix48(words: BitArray) -> BitArray:
    """A one to one mix of 48-bit words: odd multipliers and right shifts, as in ``mix64``. Works in
    place.
    """
    for multiplier in (0xBF58476D1CE5, 0x94D049BB1331, 0x9E3779B97F4B):
        words &= _KEY_MASK
        words ^= words >> np.uint64(25)
        words *= np.uint64(multiplier)
    words &= _KEY_MASK
    words ^= words >> np.uint64(25)
    return words
