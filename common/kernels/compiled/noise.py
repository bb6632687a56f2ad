"""Normal draws as ``numpy/noise.py`` makes those of this back end, bit for bit, and noise on sums, compiled.

A few rows go at a time, so that the draws stay in cache.
"""

from math import log, sqrt
from typing import Final

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray, IntArray
from fedboard.common.kernels.compiling import INTEGER, compiled, reading, writing
from fedboard.common.kernels.numpy.noise import (
    CENTRE,
    FAR_TAIL,
    FAR_TAIL_FROM,
    LOW_BITS,
    ONE,
    SCALE,
    SIGN_SHIFT,
    TAIL,
    TAIL_BELOW,
)

_WORDS_AT_ONCE: Final = 1024


@compiled()
def _ratio(variable: float, coefficients: tuple[tuple[float, float], ...]) -> float:
    """Quotient of two polynomials by Horner's rule."""
    above, below = 0.0, 0.0
    for upper, lower in coefficients:
        above = above * variable + upper
        below = below * variable + lower
    return above / below


@compiled()
def _uniform(word: np.uint64) -> float:
    """The tail probability of a word, in [2^-64, 1/2]."""
    return np.float64((word & LOW_BITS) + ONE) * SCALE


@compiled()
def _fill_centre(bits: BitArray, out: FloatArray) -> None:
    """Draws as if every word belonged to the centre; wrong in the tails. Without branches, so it vectorises."""
    for k in range(bits.size):
        offset = _uniform(bits[k]) - 0.5
        sign = 1.0 - 2.0 * np.float64(bits[k] >> SIGN_SHIFT)
        out[k] = sign * offset * _ratio(0.180625 - offset * offset, CENTRE)


@compiled()
def _list_tail(bits: BitArray, places: IntArray) -> int:
    """List the places of words in the tails and count them; a branch on one word in seven would mispredict."""
    found = 0
    for k in range(bits.size):
        places[found] = k
        found += _uniform(bits[k]) < TAIL_BELOW
    return found


@compiled()
def _fill_tail(
    bits: BitArray, places: IntArray, roots: FloatArray, draws: FloatArray, out: FloatArray
) -> None:
    """Replace ``out[places]`` by draws from the tails; ``roots`` and ``draws`` are room to work in."""
    for j in range(places.size):
        roots[j] = sqrt(-log(_uniform(bits[places[j]])))
    for j in range(places.size):
        draws[j] = -_ratio(roots[j] - 1.6, TAIL)
    for j in range(places.size):
        draw = draws[j] if roots[j] <= FAR_TAIL_FROM else -_ratio(roots[j] - 5.0, FAR_TAIL)
        out[places[j]] = -draw if bits[places[j]] >> SIGN_SHIFT else draw


@compiled(reading("uint64", 1), writing("float64", 1))
def fill_normal(bits: BitArray, out: FloatArray) -> None:
    """Fill ``out`` with one draw per word; both of shape (n,). Block by block, so that all stays in cache."""
    places = np.empty(_WORDS_AT_ONCE + 1, np.int64)
    roots, draws = np.empty(_WORDS_AT_ONCE), np.empty(_WORDS_AT_ONCE)
    for start in range(0, bits.size, _WORDS_AT_ONCE):
        stop = min(start + _WORDS_AT_ONCE, bits.size)
        words, normals = bits[start:stop], out[start:stop]
        _fill_centre(words, normals)
        _fill_tail(words, places[: _list_tail(words, places)], roots, draws, normals)


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
