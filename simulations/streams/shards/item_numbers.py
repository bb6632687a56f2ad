"""The catalogue of a source that is read in parts: items are numbered as they come, and in order at the end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray, IndexArray
from fedboard.common.errors import InputError
from fedboard.simulations.datasets.columns import number_arrow_column
from fedboard.simulations.datasets.numbering import Numbered
from fedboard.simulations.datasets.rules import ListedCatalogue, require_listed


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalItems:
    """The catalogue."""

    numbers: IndexArray
    """int32: the number of each item in the catalogue, by the number that it had first."""
    ids: NDArray[np.str_]
    titles: tuple[str, ...] | None


@dataclass(slots=True, repr=False)
class ItemNumbers:
    """All items that have come so far, in memory: a catalogue is public, and small beside its ratings."""

    catalogue: ListedCatalogue | None
    _known: Any = field(init=False, default=None)
    """A pyarrow array of the ids, in the order in which they came."""
    _used: BoolArray = field(init=False, default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """Which of them occur in a row that is a rating."""

    def number(self, words: Any, codes: IndexArray) -> IndexArray:
        """Number the items of some rows.

        Args:
            words: distinct ids, a pyarrow array; all of them occur.
            codes: int32, shape (n_rows,): positions in ``words``.

        Returns:
            int32, shape (n_rows,): their numbers as they came.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        known = words.slice(0, 0) if self._known is None else self._known
        numbers = pc.index_in(words, value_set=known)
        new = np.asarray(numbers.is_null())
        self._known = pa.concat_arrays([known, words.filter(pa.array(new))])
        table = np.array(numbers.fill_null(0), dtype=np.int32)
        table[new] = np.arange(len(known), len(self._known), dtype=np.int32)
        return table[codes]

    def use(self, numbers: IndexArray, locate: Callable[[int], str]) -> None:
        """Note that these items occur in rows that are ratings.

        Args:
            numbers: int32, shape (n_rows,), of ``number``.
            locate: names one of these rows for a message.

        Raises:
            InputError: there is a list of items, and one is not on it; names its first row.
        """
        self._widen()
        fresh = np.zeros(self._used.size, dtype=np.bool_)
        fresh[numbers] = True
        new = np.flatnonzero(fresh & ~self._used)
        if self.catalogue is not None and new.size:
            of_new = np.full(fresh.size, -1, dtype=np.int32)
            of_new[new] = np.arange(new.size, dtype=np.int32)
            rows = np.flatnonzero(of_new[numbers] >= 0)
            ids = self._known.take(new).to_pylist()
            require_listed(
                self.catalogue.titles, ids, of_new[numbers[rows]], lambda row: locate(int(rows[row]))
            )
        self._used |= fresh

    def final(self) -> FinalItems:
        """Number the items as ``assemble`` does: those that occur, or all that are listed."""
        import pyarrow as pa

        found = number_arrow_column(pa.chunked_array([self._known]))
        self._widen()
        used = self._used
        kept = Numbered(codes=found.codes, ids=found.ids).only(used)
        numbers = np.zeros(used.size, dtype=np.int32)
        numbers[used] = kept.codes
        if self.catalogue is None:
            return FinalItems(numbers=numbers, ids=kept.ids.astype(np.str_), titles=None)
        listed = self.catalogue.apply(kept, _no_row)
        numbers[used] = listed.codes
        return FinalItems(numbers=numbers, ids=listed.ids, titles=listed.titles)

    def _widen(self) -> None:
        """No item that came since the last time was seen to occur in a rating."""
        self._used = np.append(self._used, np.zeros(len(self._known) - self._used.size, dtype=np.bool_))


def _no_row(row: int) -> str:
    raise InputError("an item of the ratings is not listed")  # each was looked up when it came
