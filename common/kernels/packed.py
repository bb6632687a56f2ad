"""Symmetric matrices as packed upper triangles: entry (a, b), a <= b, row after row."""

import numpy as np

from fedboard.common.arrays import FloatArray


def packed_size(rank: int) -> int:
    """Length rank (rank + 1) / 2 of a packed triangle."""
    return rank * (rank + 1) // 2


def unpack_symmetric(packed: FloatArray, *, rank: int) -> FloatArray:
    """Full symmetric matrices, shape (k, rank, rank), from packed ones, shape (k, rank (rank + 1) / 2)."""
    upper_row, upper_column = np.triu_indices(rank)
    full = np.empty((packed.shape[0], rank, rank), dtype=np.float64)
    full[:, upper_row, upper_column] = packed
    full[:, upper_column, upper_row] = packed
    return full
