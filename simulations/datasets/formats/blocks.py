"""Ratings of a file a block at a time, in the order of the file: for data that do not fit into memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from fedboard.common.arrays import Float32Array, IntArray
from fedboard.common.errors import InputError


class Rows(Enum):
    """Which rows of a file are ratings."""

    ALL = "all"
    USED = "used"
    """Counts: one above 0 says that somebody used an item, one of 0 is no row, see ``columns.presence_of``."""
    RATED = "rated"
    """Those but 0, see ``columns.rated_alone``."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Block:
    """Some rows that follow each other in a file. Private."""

    users: Any
    """A pyarrow array, shape (n_rows,), without empty cells: whole numbers, texts or dictionary-encoded texts."""
    items: Any
    """Likewise."""
    values: Float32Array
    """float32, shape (n_rows,): not yet checked against the rating range."""
    times: IntArray | None = None
    """int64, shape (n_rows,): when each was given, see ``splits.times``; None: not asked."""

    @property
    def n_rows(self) -> int:
        """How many."""
        return int(self.values.size)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Blocks:
    """All rows of a source, and what is done with them. Private."""

    blocks: Iterator[Block]
    """Raises ``InputError`` for what cannot be read, naming file and line."""
    locate: Callable[[int], str]
    """Names row number ``k`` of all blocks (from 0) for a message; may be slow."""
    repeats: bool = False
    """Whether a pair may occur several times, see ``columns.RawColumns``."""
    rows: Rows = Rows.ALL


def require_texts(block: Block, locate: Callable[[int], str], first_row: int) -> None:
    """See that no id of a block is an empty text.

    Args:
        block: private.
        locate: as of ``Blocks``.
        first_row: number of its first row.

    Raises:
        InputError: one is; names its row.
    """
    for role, column in (("user", block.users), ("item", block.items)):
        row = _first_empty(column)
        if row is not None:
            raise InputError(
                f"{locate(first_row + row)}: the {role} id is empty; fill it in or remove the line."
            )


def _first_empty(column: Any) -> int | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type):
        return None
    if pa.types.is_dictionary(column.type) and pa.types.is_integer(column.type.value_type):
        return None
    if not pa.types.is_dictionary(column.type):
        found = int(pc.index(column, pa.scalar("", column.type)).as_py())
        return None if found < 0 else found
    empty = int(pc.index(column.dictionary, pa.scalar("", column.dictionary.type)).as_py())
    rows = np.flatnonzero(np.asarray(column.indices) == empty)
    return int(rows[0]) if empty >= 0 and rows.size else None
