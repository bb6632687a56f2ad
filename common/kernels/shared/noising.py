"""Noise on integer sums in numpy, whoever has drawn it."""

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray


def fill_noised(sums: IntArray, draws: FloatArray, stddevs: FloatArray, shift: int, out: FloatArray) -> None:
    """Fill ``out`` (k, width) with ``floor((sums + rint(stddevs draws)) / 2^shift)``; ``draws`` is used up."""
    draws *= stddevs
    np.rint(draws, out=draws)
    noisy = draws.astype(np.int64)
    noisy += sums
    noisy >>= shift
    out[:] = noisy
