"""What is left of a release when its exact sum is taken away, in units of the noise that was booked."""

import math

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.events import Event, symmetric_rank


def diagonal_places(width: int) -> IntArray:
    """Where the diagonal lies in a packed upper triangle of ``width`` numbers, row-major; int64, shape (d,).

    Raises:
        PrivacyError: ``width`` is not d (d + 1) / 2.
    """
    rank = symmetric_rank(width)
    if rank is None:
        raise PrivacyError(f"a packed symmetric matrix has d (d + 1) / 2 numbers, not {width}")
    rows = np.arange(rank, dtype=np.int64)
    places: IntArray = rows * rank - rows * (rows - 1) // 2
    return places


def booked_deviations(event: Event) -> FloatArray:
    """Noise deviation of each column that an event promises, grid units, float64, shape (width,).

    Read off the event alone, not off the object that draws, so that a draw that differs shows. Symmetric
    matrices: s on the diagonal, s / sqrt 2 off it; dividing a packed upper triangle by these gives coordinates
    in which the noise is standard normal and distances are those of the isometric coordinates, in units of s.
    """
    width, deviation = int(event["width"]), float(event["noise_stddev"])
    if event["layout"] != "symmetric":
        return np.full(width, deviation)
    deviations = np.full(width, deviation / math.sqrt(2.0))
    deviations[diagonal_places(width)] = deviation
    return deviations


def unit_noise(event: Event, released: FloatArray, exact: IntArray) -> FloatArray:
    """The noise of a release in units of what was booked: standard normal where all is well.

    ``(released / grid_step - exact) / deviation``. The low bits that publishing drops are put at their middle,
    2^-21 deviations.

    Args:
        event: what was booked. Public.
        released: float64, shape (rows, width), real units. Public.
        exact: int64, same shape, the sum without noise, grid units. Private.
    """
    dropped = (math.ldexp(1.0, int(event["release_shift"])) - 1.0) / 2.0
    noise = released / float(event["grid_step"]) - exact + dropped
    return np.asarray(noise / booked_deviations(event), dtype=np.float64)
