"""What own models leave unexplained, through numpy's einsum."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray

_ENTRIES_AT_ONCE = 1 << 18


def fill_residuals(
    indptr: IntArray,
    items: IndexArray,
    targets: Float32Array,
    vectors: Float32Array,
    own: Float32Array,
    out: FloatArray,
) -> None:
    """Fill ``out``; arguments as in ``residuals_of_rows``."""
    rows = np.repeat(np.arange(indptr.size - 1, dtype=np.int32), np.diff(indptr))
    for first in range(0, items.size, _ENTRIES_AT_ONCE):
        part = slice(first, first + _ENTRIES_AT_ONCE)
        mine = own[rows[part]]
        explained = np.einsum("pd,pd->p", vectors[items[part]], mine[:, 1:], dtype=np.float64)
        out[part] = targets[part] - mine[:, 0] - explained
