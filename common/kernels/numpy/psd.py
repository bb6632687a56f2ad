"""Projection and solve through numpy's batched eigendecomposition."""

from typing import Final

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.kernels.packed import unpack_symmetric

# Entries of the full matrices held at a time: 32 MB.
_ENTRIES_AT_ONCE: Final = 1 << 22


def solve_rows(
    quadratic: FloatArray,
    linear: FloatArray,
    ridge: FloatArray,
    gram: FloatArray | None,
    start: int,
    stop: int,
    out: FloatArray,
) -> None:
    """Fill ``out[start:stop]``; arguments as in ``solve_psd``."""
    rank = linear.shape[1]
    step = max(1, _ENTRIES_AT_ONCE // rank**2)
    for first in range(start, stop, step):
        rows = slice(first, min(first + step, stop))
        full = unpack_symmetric(quadratic[rows], rank=rank)
        values, vectors = np.linalg.eigh(full)
        projected = np.maximum(values, 0.0) + ridge[rows, np.newaxis]
        if gram is None:
            coordinates = np.einsum("kab,ka->kb", vectors, linear[rows]) / projected
            out[rows] = np.einsum("kab,kb->ka", vectors, coordinates)
        else:
            system = np.matmul(vectors * projected[:, np.newaxis, :], vectors.transpose(0, 2, 1)) + gram
            out[rows] = np.linalg.solve(system, linear[rows, :, np.newaxis])[:, :, 0]
