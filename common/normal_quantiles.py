"""The normal distribution in NumPy and the standard library alone, for whoever has no SciPy: every device.

Quantiles are those of SciPy's ``ndtri`` and ``ndtri_exp`` to the last bit where SciPy is built for plain x86-64:
the same operations in the same order, each rounded as IEEE 754 says, and the logarithms of the C library, which
Python's ``math`` calls. (NumPy's own logarithm has other last bits on some processors.)

Source of formula and coefficients: S. L. Moshier, Cephes Math Library 2.1 (1989), ``ndtri``.
"""

import math
from typing import Final

import numpy as np

from fedboard.common.arrays import FloatArray

_Polynomials = tuple[tuple[float, ...], tuple[float, ...]]
"""Coefficients of numerator and denominator from the highest power down; the denominator's first one is 1."""

_TAIL_BELOW: Final = 0.13533528323661269189
_CENTRE: Final = (
    (
        -59.9633501014107895267,
        98.0010754185999661536,
        -56.6762857469070293439,
        13.9312609387279679503,
        -1.23916583867381258016,
    ),
    (
        1.0,
        1.95448858338141759834,
        4.67627912898881538453,
        86.3602421390890590575,
        -225.462687854119370527,
        200.260212380060660359,
        -82.0372256168333339912,
        15.9056225126211695515,
        -1.18331621121330003142,
    ),
)
_TAIL: Final = (
    (
        4.05544892305962419923,
        31.5251094599893866154,
        57.1628192246421288162,
        44.0805073893200834700,
        14.6849561928858024014,
        2.18663306850790267539,
        -0.140256079171354495875,
        -0.0350424626827848203418,
        -8.57456785154685413611e-4,
    ),
    (
        1.0,
        15.7799883256466749731,
        45.3907635128879210584,
        41.3172038254672030440,
        15.0425385692907503408,
        2.50464946208309415979,
        -0.142182922854787788574,
        -0.0380806407691578277194,
        -9.33259480895457427372e-4,
    ),
)
_FAR_TAIL: Final = (
    (
        3.23774891776946035970,
        6.91522889068984211695,
        3.93881025292474443415,
        1.33303460815807542389,
        0.201485389549179081538,
        0.0123716634817820021358,
        3.01581553508235416007e-4,
        2.65806974686737550832e-6,
        6.23974539184983293730e-9,
    ),
    (
        1.0,
        6.02427039364742014255,
        3.67983563856160859403,
        1.37702099489081330271,
        0.216236993594496635890,
        0.0134204006088543189037,
        3.28014464682127739104e-4,
        2.89247864745380683936e-6,
        6.79019408009981274425e-9,
    ),
)
_FAR_TAIL_FROM: Final = 8.0
_ROOT_OF_TWO_PI: Final = 2.50662827463100050242
_AT_ONCE: Final = 1 << 13
"""Numbers whose intermediate results stay in a cache."""
_FRACTION_FROM: Final = 2.0
_FRACTION_STEPS: Final = 400.0
"""Of the continued fraction, times x^2, beside 20: what is left out is below 2e-16 of it."""


def fill_quantiles(probabilities: FloatArray, out: FloatArray) -> None:
    """Standard normal quantiles of probabilities in (0, 1/2]; ``out`` may be the same array. Both (n,)."""
    for first in range(0, probabilities.size, _AT_ONCE):
        part = probabilities[first : first + _AT_ONCE]
        tail = np.flatnonzero(part <= _TAIL_BELOW)
        roots = np.sqrt(-2.0 * _logarithms(part[tail]))
        offset = part - 0.5
        square = offset * offset
        out[first : first + _AT_ONCE] = (offset + offset * _ratio(square, square, _CENTRE)) * _ROOT_OF_TWO_PI
        out[first + tail] = -_beyond(roots)


def quantile_of_logarithm(logarithm: float) -> float:
    """The standard normal quantile of ``e^logarithm``, for probabilities up to 1/2: finite below any float's range.

    Args:
        logarithm: finite, at most ``log(1/2)``.
    """
    if logarithm < -2.0:
        return -float(_beyond(np.array([math.sqrt(-2.0 * logarithm)]))[0])
    found = np.array([math.exp(logarithm)])
    fill_quantiles(found, found)
    return float(found[0])


def normal_below(x: float) -> float:
    """The chance that a standard normal draw is below x."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def mills_ratio(x: float) -> float:
    """The chance of a draw above x, divided by the density at x; to a relative 1e-15 for x >= 0, which is required.

    By the complementary error function where its exponential is small, else by Laplace's continued fraction
    ``1 / (x + 1 / (x + 2 / (x + 3 / ...)))``, whose terms are all positive.
    """
    if x < _FRACTION_FROM:
        return _ROOT_OF_TWO_PI * math.exp(0.5 * x * x) * 0.5 * math.erfc(x / math.sqrt(2.0))
    below = x
    for step in range(20 + int(_FRACTION_STEPS / (x * x)), 0, -1):
        below = x + step / below
    return 1.0 / below


def _beyond(roots: FloatArray) -> FloatArray:
    """How far out the quantile of u lies, from ``sqrt(-2 log u) >= 2``."""
    inverse = 1.0 / roots
    less = _ratio(inverse, inverse, _TAIL)
    far = np.flatnonzero(roots >= _FAR_TAIL_FROM)
    less[far] = _ratio(inverse[far], inverse[far], _FAR_TAIL)
    found: FloatArray = roots - _logarithms(roots) / roots - less
    return found


def _ratio(factor: FloatArray, variable: FloatArray, polynomials: _Polynomials) -> FloatArray:
    """``factor`` times the quotient of two polynomials, by Horner's rule."""
    above, below = np.zeros_like(variable), np.zeros_like(variable)
    for total, coefficients in zip((above, below), polynomials, strict=True):
        for coefficient in coefficients:
            total *= variable
            total += coefficient
    return factor * above / below


def _logarithms(values: FloatArray) -> FloatArray:
    return np.fromiter(map(math.log, values.tolist()), np.float64, values.size)
