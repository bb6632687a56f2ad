"""Who takes part, told for any range of rows: for populations of which no array of all users is made."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, IntArray
from fedboard.common.privacy.releases.noise import NoiseStream

_AT_ONCE = 1 << 20
_TOP_BITS = 16

Place: TypeAlias = tuple[int, int]
"""A word of 64 bits and a row: words in their order, and where two are the same the earlier row first."""

_END: Place = (1 << 64, 0)


class PresentRows(Protocol):
    """Who takes part in a round. Secret where coins decided; picklable, and of a size that depends on nobody."""

    def rows(self, start: int, stop: int) -> BoolArray:
        """Which of rows ``start:stop`` do: bool, shape (stop - start,)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RowsByWord:
    """Those whose word of the stream, with their row's number, lies in one range."""

    stream: NoiseStream
    """A word a row. Secret."""
    least: Place = (0, 0)
    """Inclusive."""
    end: Place = _END
    """Exclusive."""

    def rows(self, start: int, stop: int) -> BoolArray:
        """Which of rows ``start:stop`` take part."""
        words, numbers = self.stream.bits(start, stop - start), np.arange(start, stop)
        return ~_before(words, numbers, self.least) & _before(words, numbers, self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsByNumber:
    """Every so-manieth row. Public."""

    of: int
    """>= 1."""
    number: int
    """Which of them, in 0..of - 1."""

    def rows(self, start: int, stop: int) -> BoolArray:
        """Which of rows ``start:stop`` take part."""
        return np.asarray(np.arange(start, stop) % self.of == self.number)


def rows_of_ranks(stream: NoiseStream, n_users: int, first: int, last: int) -> RowsByWord:
    """The rows whose words have the ranks ``first:last`` among all words, smallest first.

    As from a stable sort of all words, in two passes over them and without an array of them.

    Args:
        stream: a word a row. Secret.
        n_users: how many rows.
        first: >= 0.
        last: one past the last; at most n_users.
    """
    least, end = (_place_of_rank(stream, n_users, rank) for rank in (first, last))
    return RowsByWord(stream=stream, least=least, end=end)


def _before(words: BitArray, numbers: IntArray, place: Place) -> BoolArray:
    word, row = place
    if word >= 1 << 64:
        return np.ones(words.shape, np.bool_)
    bound = np.uint64(word)
    return np.asarray((words < bound) | ((words == bound) & (numbers < row)))


def _place_of_rank(stream: NoiseStream, n_users: int, rank: int) -> Place:
    if rank >= n_users:
        return _END
    shift = np.uint64(64 - _TOP_BITS)
    found = np.zeros(1 << _TOP_BITS, dtype=np.int64)
    for start in range(0, n_users, _AT_ONCE):
        words = stream.bits(start, min(_AT_ONCE, n_users - start))
        found += np.bincount((words >> shift).astype(np.int64), minlength=found.size)
    behind = np.cumsum(found)
    top = int(np.searchsorted(behind, rank, side="right"))
    near: list[Place] = []
    for start in range(0, n_users, _AT_ONCE):
        words = stream.bits(start, min(_AT_ONCE, n_users - start))
        here = np.flatnonzero(words >> shift == np.uint64(top))
        near += zip(words[here].tolist(), (here + start).tolist(), strict=True)
    return sorted(near)[rank - int(behind[top] - found[top])]
