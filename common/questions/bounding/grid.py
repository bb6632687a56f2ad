"""Numbers of users on the integer grid of a release of a few numbers."""

import math

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.errors import PrivacyError

GRID_BOUND = 1 << 40
"""Largest contribution of one user, grid units: the grid shows in no digit, and 2^22 users fit."""


def on_grid(fractions: FloatArray) -> IntArray:
    """Put parts of a bound on the grid, toward zero.

    Args:
        fractions: float64, shape (n_users, width): contributions as fractions of the bound. Private.

    Returns:
        int64, same shape; absolute values of a row add to at most ``GRID_BOUND`` if those of its fractions add to
        at most 1 up to rounding. Private.

    Raises:
        PrivacyError: a row exceeds the bound by more than rounding, or is not finite; which one is not said.
    """
    sums = np.abs(fractions).sum(axis=1)
    if not np.all(sums <= 1.0 + 1e-9):
        raise PrivacyError("a contribution exceeds its bound or is not finite")
    units: IntArray = np.trunc(fractions * (GRID_BOUND / np.maximum(sums, 1.0))[:, None]).astype(np.int64)
    excess = np.abs(units).sum(axis=1) - GRID_BOUND
    for row in np.flatnonzero(excess > 0):  # rounding of a product: a unit or two
        largest = int(np.argmax(np.abs(units[row])))
        units[row, largest] -= int(math.copysign(excess[row], units[row, largest]))
    return units
