"""Noise on integer sums in numpy."""

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray, IntArray
from fedboard.common.kernels.numpy.normal import fill_normal
from fedboard.common.kernels.shared.noising import fill_noised


def fill_noisy(sums: IntArray, bits: BitArray, stddevs: FloatArray, shift: int, out: FloatArray) -> None:
    """Fill ``out`` (k, width); arguments as in ``noisy_sums``."""
    draws = np.empty(sums.shape)
    fill_normal(bits, draws.reshape(-1))
    fill_noised(sums, draws, stddevs, shift, out)
