"""Normal draws through the rational approximations of Wichura's algorithm AS 241 (PPND16).

Reference: M. J. Wichura, Algorithm AS 241: the percentage points of the normal distribution, Applied
Statistics 37 (1988) 477-484. Relative accuracy about 1e-16.
"""

from math import log, sqrt
from typing import Final

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray
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
_CENTRE_HALF_WIDTH: Final = 0.425
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
def _tail(uniform: float) -> float:
    """Phi^-1(uniform) for uniform in [2^-64, 0.075]."""
    root = sqrt(-log(uniform))
    if root <= 5.0:
        return -_ratio(root - 1.6, _TAIL)
    return -_ratio(root - 5.0, _FAR_TAIL)


@compiled(reading("uint64", 1), writing("float64", 1))
def fill_normal(bits: BitArray, out: FloatArray) -> None:
    """Fill ``out`` with one draw per word; both of shape (n,). The first loop has no branch: it vectorises."""
    for k in range(bits.size):
        offset = np.float64((bits[k] & _LOW_BITS) + _ONE) * _SCALE - 0.5
        sign = 1.0 - 2.0 * np.float64(bits[k] >> _SIGN_SHIFT)
        out[k] = sign * offset * _ratio(0.180625 - offset * offset, _CENTRE)
    for k in range(bits.size):
        uniform = np.float64((bits[k] & _LOW_BITS) + _ONE) * _SCALE
        if uniform < 0.5 - _CENTRE_HALF_WIDTH:
            draw = _tail(uniform)
            out[k] = -draw if bits[k] >> _SIGN_SHIFT else draw


__all__ = ["fill_normal"]
