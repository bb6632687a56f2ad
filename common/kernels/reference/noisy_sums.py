"""Noise on integer sums in numpy."""

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray, IntArray
from fedboard.common.kernels.reference.normal import fill_normal


def fill_noisy(sums: IntArray, bits: BitArray, stddevs: FloatArray, shift: int, out: FloatArray) -> None:
    """Fill ``out`` (k, width); arguments as in ``noisy_sums``."""
    draws = np.empty(bits.size)
    fill_normal(bits, draws)
    out[:] = (sums + np.rint(draws.reshape(sums.shape) * stddevs).astype(np.int64)) >> shift


__all__ = ["fill_noisy"]
