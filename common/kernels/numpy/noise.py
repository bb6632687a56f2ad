"""Normal draws and noise on integer sums, in numpy: those of this back end, and those of the compiled one.

The compiled draws go through the rational approximations of Wichura's algorithm AS 241 (PPND16). Here they are the
same to the last bit: the same operations in the same order, each rounded as IEEE 754 says, and the logarithms of
the C library, which Python's ``math`` and the compiled code both call.

Reference: M. J. Wichura, Algorithm AS 241: the percentage points of the normal distribution, Applied
Statistics 37 (1988) 477-484. Relative accuracy about 1e-16.
"""

from math import log
from typing import Final

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray, IntArray
from fedboard.common.normal_quantiles import fill_quantiles


def fill_noised(sums: IntArray, draws: FloatArray, stddevs: FloatArray, shift: int, out: FloatArray) -> None:
    """Fill ``out`` (k, width) with ``floor((sums + rint(stddevs draws)) / 2^shift)``; ``draws`` is used up."""
    draws *= stddevs
    np.rint(draws, out=draws)
    noisy = draws.astype(np.int64)
    noisy += sums
    noisy >>= shift
    out[:] = noisy


# Coefficients from the highest power down. Centre: |u - 1/2| <= 0.425, in the variable 0.180625 - (u - 1/2)^2.
CENTRE: Final = (
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
TAIL: Final = (
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
FAR_TAIL: Final = (
    (2.01033439929228813265e-7, 2.04426310338993978564e-15),
    (2.71155556874348757815e-5, 1.4215117583164458887e-7),
    (0.0012426609473880784386, 1.8463183175100546818e-5),
    (0.026532189526576123093, 7.868691311456132591e-4),
    (0.29656057182850489123, 0.0148753612908506148525),
    (1.7848265399172913358, 0.13692988092273580531),
    (5.4637849111641143699, 0.59983220655588793769),
    (6.6579046435011037772, 1.0),
)
TAIL_BELOW: Final = 0.5 - 0.425
FAR_TAIL_FROM: Final = 5.0
LOW_BITS: Final = np.uint64((1 << 63) - 1)
ONE: Final = np.uint64(1)
SIGN_SHIFT: Final = np.uint64(63)
SCALE: Final = 2.0**-64


def fill_compiled_normal(bits: BitArray, out: FloatArray) -> None:
    """Fill ``out`` with one draw per word; both of shape (n,)."""
    uniform = ((bits & LOW_BITS) + ONE).astype(np.float64) * SCALE
    offset = uniform - 0.5
    signs = 1.0 - 2.0 * (bits >> SIGN_SHIFT).astype(np.float64)
    out[:] = signs * offset * _ratio(0.180625 - offset * offset, CENTRE)
    places = np.flatnonzero(uniform < TAIL_BELOW)
    roots = np.sqrt(-np.array([log(u) for u in uniform[places].tolist()], dtype=np.float64))
    far = roots > FAR_TAIL_FROM
    draws = -_ratio(roots - 1.6, TAIL)
    draws[far] = -_ratio(roots[far] - 5.0, FAR_TAIL)
    out[places] = np.where(signs[places] < 0, -draws, draws)


def _ratio(variable: FloatArray, coefficients: tuple[tuple[float, float], ...]) -> FloatArray:
    """Quotient of two polynomials by Horner's rule."""
    above, below = np.zeros_like(variable), np.zeros_like(variable)
    for upper, lower in coefficients:
        above = above * variable + upper
        below = below * variable + lower
    return above / below


def fill_normal(bits: BitArray, out: FloatArray) -> None:
    """Fill ``out`` with one draw per word; both of shape (n,)."""
    low = bits & np.uint64((1 << 63) - 1)
    low += np.uint64(1)
    np.multiply(low, 2.0**-64, out=out)
    fill_quantiles(out, out)
    np.negative(out, out=out, where=bits.view(np.int64) < 0)


def fill_noisy(sums: IntArray, bits: BitArray, stddevs: FloatArray, shift: int, out: FloatArray) -> None:
    """Fill ``out`` (k, width); arguments as in ``noisy_sums``."""
    draws = np.empty(sums.shape)
    fill_normal(bits, draws.reshape(-1))
    fill_noised(sums, draws, stddevs, shift, out)
