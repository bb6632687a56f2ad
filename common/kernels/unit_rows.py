"""Sharing one unit of budget among the entries of each compressed row."""

import numpy as np

from fedboard.common.arrays import FloatArray, IndexArray, IntArray, ascends
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import implementation


def unit_rows(
    indptr: IntArray, items: IndexArray, item_weights: FloatArray, *, spend_all: bool, backend: str
) -> FloatArray:
    """Scale the weights of each row's items so that their squares add to at most 1.

    An entry of row j with item i gets omega_i / |omega over row j|, at most 1; without ``spend_all`` a row whose
    norm is below 1 stays as it is.

    **Guarantee**: every backend gives the same bits, and a row depends on its own entries alone.

    Args:
        indptr: int64, shape (n_rows + 1,), from 0 to n_entries. Private, as are the items.
        items: int32, shape (n_entries,).
        item_weights: float64, shape (n_items,), omega, finite and > 0. Public.
        spend_all: whether every row gets norm 1. Public.
        backend: "numpy" or "compiled".

    Returns:
        float64, shape (n_entries,), in [0, 1].

    Raises:
        InputError: arrays that do not fit together.
    """
    kernel = implementation(backend, "unit_rows")
    indptr, items = np.ascontiguousarray(indptr, np.int64), np.ascontiguousarray(items, np.int32)
    item_weights = np.ascontiguousarray(item_weights, np.float64)
    _check(indptr, items, item_weights)
    weights = np.empty(items.size)
    kernel.scale_rows(indptr, items, item_weights, int(spend_all), weights)
    return weights


def _check(indptr: IntArray, items: IndexArray, item_weights: FloatArray) -> None:
    """Refuse arrays that do not fit together. Compiled kernels read without looking: nothing may get past."""
    if indptr.size < 1 or indptr[0] != 0 or indptr[-1] != items.size or not ascends(indptr):
        raise InputError("indptr must ascend from 0 to the number of items")
    if items.size and (items.min() < 0 or items.max() >= item_weights.size):
        raise InputError("items must be places in item_weights")
