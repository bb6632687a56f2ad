"""Reading a source a block at a time into sorted runs on disk, each row checked on its way."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedboard.common.arrays import BoolArray, Float32Array, IndexArray
from fedboard.common.errors import InputError
from fedboard.simulations.datasets.formats.blocks import Block, Blocks, Rows, require_texts
from fedboard.simulations.datasets.rules import check_values
from fedboard.simulations.streams.shards.item_numbers import ItemNumbers
from fedboard.simulations.streams.shards.room import require_room
from fedboard.simulations.streams.shards.runs import Run, in_order, sorted_rows, write_run
from fedboard.simulations.streams.shards.user_order import UserOrder, kept_as, order_of_texts

_ROW_BYTES = 128
"""Memory that a row of a run takes while it is sorted, texts aside: columns as they came, sorted, and the order."""
_TEXT_SHARE = 8
"""Of the memory, what blocks may take before they become a run: texts are copied while they are put together."""
_MOST_TEXT = 1 << 30
"""Bytes; pyarrow counts those of one array of texts in 32 bits."""


@dataclass(slots=True, repr=False)
class Spill:
    """Runs, as they are made."""

    folder: Path
    rating_range: tuple[float, float]
    items: ItemNumbers
    memory: int
    """Bytes that it may take."""
    told: Callable[[int], None]
    """Called with the number of rows that were read."""
    order: UserOrder = field(init=False, default=UserOrder.NUMBER)
    runs: list[Run] = field(init=False, default_factory=list)
    n_read: int = field(init=False, default=0)
    """Rows that were read."""

    def take(self, source: Blocks, label: str) -> None:
        """Read all of a source.

        Args:
            source: blocks of it.
            label: how messages call it.

        Raises:
            InputError: there is no rating, or one that cannot be used, naming file and line.
            StorageError: the disk is full.
        """
        import pyarrow as pa

        for blocks in _batches(source.blocks, self.memory):
            try:
                self._add_run(source, blocks)
            except pa.ArrowInvalid as error:
                raise InputError(
                    f"{label}: an id is a whole number beyond {2**63 - 1}; write the column as text instead."
                ) from error
            self.told(self.n_read)
        if self.n_read == 0:
            raise InputError(f"{label} has no ratings; give a file with at least one rating.")
        if not self.runs:
            what = "count" if source.rows is Rows.USED else "rating"
            verb = "used" if source.rows is Rows.USED else "rated"
            raise InputError(
                f"{source.locate(0)}: this {what} and all others are 0; give a file where something is {verb}."
            )
        for number, run in enumerate(self.runs):
            self.runs[number] = in_order(run, self.order)

    def _add_run(self, source: Blocks, blocks: list[Block]) -> None:
        """Check some blocks and write them as a run, if there is a rating among them."""
        locate = _counted_from(self.n_read, source.locate)
        for block in blocks:
            require_texts(block, source.locate, self.n_read)
            self.n_read += block.n_rows
        values = np.concatenate([block.values for block in blocks])
        words, users = _distinct([block.users for block in blocks])
        items = self.items.number(*_distinct([block.items for block in blocks]))
        self.order = max(self.order, _needs(words))
        times = None if blocks[0].times is None else np.concatenate([_times(block) for block in blocks])
        blocks.clear()
        kept = _kept(values, source.rows, locate)
        if kept is not None:
            rows = np.flatnonzero(kept)
            users, items, values = users[rows], items[rows], values[rows]
            times = None if times is None else times[rows]
            locate = _through(rows, locate)
        if values.size == 0:
            return
        if source.rows is Rows.USED:
            values = np.ones_like(values)
        check_values(values, self.rating_range, locate)
        self.items.use(items, locate)
        require_room(self.folder, values.size * (24 if times is not None else 16))
        part = sorted_rows(_of(words, users, self.order), items, values, times)
        self.runs.append(write_run(self.folder, len(self.runs), self.order, part))


def _batches(blocks: Iterator[Block], memory: int) -> Iterator[list[Block]]:
    """Blocks that together fit into memory while they are sorted; the list may be emptied by whoever takes it."""
    waiting: list[Block] = []
    n_rows = n_bytes = 0
    for block in blocks:
        waiting.append(block)
        n_rows += block.n_rows
        n_bytes += block.users.nbytes + block.items.nbytes
        if n_rows * _ROW_BYTES >= memory or n_bytes >= min(memory // _TEXT_SHARE, _MOST_TEXT):
            yield waiting
            waiting, n_rows, n_bytes = [], 0, 0
    if n_rows:
        yield waiting


def _distinct(columns: list[Any]) -> tuple[Any, IndexArray]:
    """The ids that occur in some columns, in any order, as int64 or texts, and the place of each row among them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(columns[0].type):
        encoded = pc.dictionary_encode(pa.concat_arrays([column.cast(pa.int64()) for column in columns]))
        return encoded.dictionary, np.asarray(encoded.indices)
    encoded = [
        column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column) for column in columns
    ]
    chunks = pa.chunked_array(encoded).unify_dictionaries().chunks
    words = chunks[0].dictionary
    codes = np.concatenate([np.asarray(chunk.indices) for chunk in chunks])
    used = np.zeros(len(words), dtype=np.bool_)
    used[codes] = True
    if not used.all():
        words = words.filter(pa.array(used))
        codes = (np.cumsum(used, dtype=np.int32) - np.int32(1))[codes]
    return words.cast(pa.string()), codes.astype(
        np.int32
    )  # also of numbers, as ``number_arrow_column`` has it


def _needs(words: Any) -> UserOrder:
    import pyarrow as pa

    return UserOrder.NUMBER if pa.types.is_integer(words.type) else order_of_texts(words)


def _of(words: Any, codes: IndexArray, order: UserOrder) -> Any:
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes), kept_as(words, order))


def _times(block: Block) -> Any:
    return block.times


def _kept(values: Float32Array, rows: Rows, locate: Callable[[int], str]) -> BoolArray | None:
    """Which rows are ratings; None: all of them are."""
    if rows is Rows.ALL:
        return None
    if rows is Rows.RATED:
        kept: BoolArray = values != 0
        return kept
    wrong = ~(values >= 0)
    if wrong.any():
        raise InputError(f"{locate(int(np.argmax(wrong)))}: the count is negative or NaN; correct it.")
    used: BoolArray = values > 0
    return used


def _counted_from(first: int, locate: Callable[[int], str]) -> Callable[[int], str]:
    return lambda row: locate(first + row)


def _through(rows: Any, locate: Callable[[int], str]) -> Callable[[int], str]:
    return lambda row: locate(int(rows[row]))
