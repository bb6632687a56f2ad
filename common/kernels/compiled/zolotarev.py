"""The best rational approximation of the sign function, in partial fractions."""

from functools import cache
from typing import Final

import numpy as np

from fedboard.common.arrays import FloatArray

SMALLEST: Final = 1e-10
N_POLES: Final = 72


@cache
def sign_coefficients(smallest: float, n_poles: int) -> tuple[FloatArray, FloatArray]:
    """Poles and weights of Zolotarev's approximation sign(x) ~ x sum_j weights_j / (x^2 + poles_j^2).

    With k' = smallest the complementary modulus and K the complete elliptic integral, the numbers
    c_i = k'^2 tn(i K / (2 r))^2, i = 1..2r - 1, are in turn squared poles and squared zeros. For k' << 1,
    K = log(4 / k') and tn(u) = sinh(u) / (1 - k'^2 cosh(2u) / 8) for u <= K / 2, up to a relative k'^2;
    tn(K - u) = 1 / (k' tn(u)).

    Args:
        smallest: the approximation holds for smallest <= |x| <= 1; <= 1e-6.
        n_poles: r, >= 1. The error is about 4 exp(-pi^2 r / log(4 / smallest)): 1e-12 for 1e-10 and 72.

    Returns:
        float64, shape (n_poles,), twice: poles (ascending) and weights; read-only, and made once in a process.

    Reference: Zolotarev (1877); N. I. Akhiezer, Elements of the Theory of Elliptic Functions (1990), sec. 50.
    """
    arguments = np.arange(1, n_poles + 1) * np.log(4.0 / smallest) / (2 * n_poles)
    tangents = np.sinh(arguments) / (1.0 - smallest**2 / 8.0 * np.cosh(2.0 * arguments))
    squares = (smallest * tangents) ** 2
    squares = np.concatenate([squares, smallest**2 / squares[-2::-1]])
    poles, zeros = squares[::2], squares[1::2]
    weights = np.array(
        [np.prod((zeros - pole) / (np.delete(poles, j) - pole)) for j, pole in enumerate(poles)]
    )
    # The values swing between two bounds; scale them to swing evenly about 1.
    x = np.geomspace(smallest, 1.0, 100 * n_poles)[:, np.newaxis]
    values = np.sum(x * weights / (x**2 + poles), axis=1)
    found = np.sqrt(poles), weights * 2.0 / (values.max() + values.min())
    for array in found:
        array.flags.writeable = False
    return found
