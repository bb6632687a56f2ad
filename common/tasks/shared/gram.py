"""Sum of u u^T over the items' vectors."""

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray

_ROWS_AT_ONCE = 1 << 17


def gram_of(factors: Float32Array) -> FloatArray:
    """U^T U in float64, shape (rank, rank); of a large catalogue in blocks, so that U is not copied whole.

    Args:
        factors: U, float32, shape (n_items, rank).
    """
    blocks = (factors[start : start + _ROWS_AT_ONCE] for start in range(0, len(factors), _ROWS_AT_ONCE))
    total: FloatArray = np.zeros((factors.shape[1], factors.shape[1]))
    for block in blocks:
        total += block.T.astype(np.float64) @ block
    return total
