"""Normal draws through the inverse distribution function."""

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray
from fedboard.common.normal_quantiles import fill_quantiles


def fill_normal(bits: BitArray, out: FloatArray) -> None:
    """Fill ``out`` with one draw per word; both of shape (n,)."""
    low = bits & np.uint64((1 << 63) - 1)
    low += np.uint64(1)
    np.multiply(low, 2.0**-64, out=out)
    fill_quantiles(out, out)
    np.negative(out, out=out, where=bits.view(np.int64) < 0)
