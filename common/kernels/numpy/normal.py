"""Normal draws through scipy's inverse distribution function."""

import numpy as np
from scipy.special import ndtri

from fedboard.common.arrays import BitArray, FloatArray


def fill_normal(bits: BitArray, out: FloatArray) -> None:
    """Fill ``out`` with one draw per word; both of shape (n,)."""
    low = bits & np.uint64((1 << 63) - 1)
    low += np.uint64(1)
    np.multiply(low, 2.0**-64, out=out)
    ndtri(out, out=out)
    np.negative(out, out=out, where=bits.view(np.int64) < 0)
