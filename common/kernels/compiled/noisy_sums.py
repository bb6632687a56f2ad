"""Noise on integer sums as compiled loops over a few rows at a time, so that the draws stay in cache."""

from typing import Final

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray, IntArray
from fedboard.common.kernels.compiled.normal import fill_normal
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, writing

_NUMBERS_AT_ONCE: Final = 4096


@compiled()
def _add(sums: IntArray, draws: FloatArray, stddevs: FloatArray, shift: int, out: FloatArray) -> None:
    for column in range(sums.size):
        noise = np.int64(np.rint(draws[column] * stddevs[column]))
        out[column] = np.float64((sums[column] + noise) >> shift)


@compiled(
    *(reading("int64", 2), reading("uint64", 1), reading("float64", 1), INTEGER, writing("float64", 2)),
)
def fill_noisy(sums: IntArray, bits: BitArray, stddevs: FloatArray, shift: int, out: FloatArray) -> None:
    """Fill ``out`` (k, width); arguments as in ``noisy_sums``."""
    n_rows, width = sums.shape
    step = max(1, _NUMBERS_AT_ONCE // max(1, width))
    draws = np.empty(step * width)
    for first in range(0, n_rows, step):
        last = min(first + step, n_rows)
        fill_normal(bits[first * width : last * width], draws[: (last - first) * width])
        for row in range(first, last):
            own = draws[(row - first) * width : (row - first + 1) * width]
            _add(sums[row], own, stddevs, shift, out[row])
