"""Normal draws through the rational approximations of Wichura's algorithm AS 241 (PPND16).

Reference: M. J. Wichura, Algorithm AS 241: the percentage points of the normal distribution, Applied
Statistics 37 (1988) 477-484. Relative accuracy about 1e-16.
"""

from math import log, sqrt
from typing import Final

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray, IntArray
from fedboard.common.kernels.compiling import compiled, reading, writing

# Coefficients from the highest power down. Centre: |u - 1/2| <= 0.425, in the variable 0.180625 - (u - 1/2)^2.
_CENTRE: Final = (
    (2509.0809287301226727, 5226.495278852854561),
    (33430.575583588128105, 28729.085735721942674),
    (67265.770927008700853, 39307.89580009271061),
    (45921.953931549871457, 21213.794301586595867),
    (13731.693765509461125, 5394.1960214247511077),
    (1971.5909503065514427, 687.1870074920579083),
    (133.14166789178437745, 42.313330701600911252),
    (3.387132872796366608, 1.0),
)
# Tail: r = sqrt(-log u) <= 5, in the variable r - 1.6.
_TAIL: Final = (
    (7.7454501427834140764e-4, 1.05075007164441684324e-9),
    (0.0227238449892691845833, 5.475938084995344946e-4),
    (0.24178072517745061177, 0.0151986665636164571966),
    (1.27045825245236838258, 0.14810397642748007459),
    (3.64784832476320460504, 0.68976733498510000455),
    (5.7694972214606914055, 1.6763848301838038494),
    (4.6303378461565452959, 2.05319162663775882187),
    (1.42343711074968357734, 1.0),
)
# Far tail: r > 5 (u < 1.4e-11), in the variable r - 5.
_FAR_TAIL: Final = (
    (2.01033439929228813265e-7, 2.04426310338993978564e-15),
    (2.71155556874348757815e-5, 1.4215117583164458887e-7),
    (0.0012426609473880784386, 1.8463183175100546818e-5),
    (0.026532189526576123093, 7.868691311456132591e-4),
    (0.29656057182850489123, 0.0148753612908506148525),
    (1.7848265399172913358, 0.13692988092273580531),
    (5.4637849111641143699, 0.59983220655588793769),
    (6.6579046435011037772, 1.0),
)
_TAIL_BELOW: Final = 0.5 - 0.425
_WORDS_AT_ONCE: Final = 1024
_LOW_BITS: Final = np.uint64((1 << 63) - 1)
_ONE: Final = np.uint64(1)
_SIGN_SHIFT: Final = np.uint64(63)
_SCALE: Final = 2.0**-64


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
    return np.float64((word & _LOW_BITS) + _ONE) * _SCALE


@compiled()
def _fill_centre(bits: BitArray, out: FloatArray) -> None:
    """Draws as if every word belonged to the centre; wrong in the tails. Without branches, so it vectorises."""
    for k in range(bits.size):
        offset = _uniform(bits[k]) - 0.5
        sign = 1.0 - 2.0 * np.float64(bits[k] >> _SIGN_SHIFT)
        out[k] = sign * offset * _ratio(0.180625 - offset * offset, _CENTRE)


@compiled()
def _list_tail(bits: BitArray, places: IntArray) -> int:
    """List the places of words in the tails and count them; a branch on one word in seven would mispredict."""
    found = 0
    for k in range(bits.size):
        places[found] = k
        found += _uniform(bits[k]) < _TAIL_BELOW
    return found


@compiled()
def _fill_tail(
    bits: BitArray, places: IntArray, roots: FloatArray, draws: FloatArray, out: FloatArray
) -> None:
    """Replace ``out[places]`` by draws from the tails; ``roots`` and ``draws`` are room to work in."""
    for j in range(places.size):
        roots[j] = sqrt(-log(_uniform(bits[places[j]])))
    for j in range(places.size):
        draws[j] = -_ratio(roots[j] - 1.6, _TAIL)
    for j in range(places.size):
        draw = draws[j] if roots[j] <= 5.0 else -_ratio(roots[j] - 5.0, _FAR_TAIL)
        out[places[j]] = -draw if bits[places[j]] >> _SIGN_SHIFT else draw


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
