"""Which rows of per-item arrays some users need: of a large catalogue a device, or a block of users, needs few."""

import numpy as np

from fedboard.common.arrays import IndexArray

_FEW = 8
"""Rows are gathered where there are at least so many times more items than ratings; else sorting costs more."""


def rated_rows(items: IndexArray, n_items: int) -> tuple[IndexArray | slice, IndexArray]:
    """Rows to take of an array over all items, and where each rating's item is among them.

    ``array[rows][places]`` is ``array[items]``, number for number.

    Args:
        items: int32, shape (n_ratings,), item numbers. Private.
        n_items: size of the catalogue.

    Returns:
        Item numbers, ascending, or ``slice(None)`` where taking all costs less; int32, shape (n_ratings,). Private.
    """
    if _FEW * items.size >= n_items:
        return slice(None), items
    rows, places = np.unique(items, return_inverse=True)
    return rows, places.astype(np.int32)
