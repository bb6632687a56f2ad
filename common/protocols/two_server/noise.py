"""The noise of two servers: each adds all of it, on the lattice that their shares lie on."""

from math import sqrt
from typing import Final

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource, NoiseStream
from fedboard.common.protocols.sums.residues import Packing

NOISE_RATIO: Final = sqrt(2.0)
"""Both servers add all of the noise, and only one of them is counted."""
_NUMBERS_PER_BLOCK = 1 << 16


def lattice_noise(release: GaussianRelease, stream: NoiseStream, *, shift: int) -> IntArray:
    """The whole noise of a release on a lattice: ``rint(s_c / 2^shift N)``, s_c the deviation of column c.

    The sums lie on the lattice, so rounding commutes with adding them: a function of the Gaussian mechanism's
    output, whatever the deviation.

    Args:
        release: public.
        stream: draw number k is number k of the result, row by row. Secret.
        shift: the lattice is 2^shift grid units. Public.

    Returns:
        int64, shape (rows, width), lattice units.

    Raises:
        InputError: the noise does not fit 62 bits.
    """
    deviations = release.column_stddev() * 2.0**-shift
    if not deviations.max() < 2.0**58:
        raise InputError(f"release {release.name!r} has more noise than 64-bit integers hold")
    drawn = np.empty((release.rows, release.width), dtype=np.int64)
    step = max(1, _NUMBERS_PER_BLOCK // release.width)
    for first in range(0, release.rows, step):
        part = drawn[first : first + step]
        part[:] = np.rint(stream.normal(first * release.width, part.size).reshape(part.shape) * deviations)
    return drawn


def helper_noise(packing: Packing, noise: NoiseSource) -> dict[str, IntArray]:
    """All of the helper's noise of a round, from streams of its own.

    Args:
        packing: of the round. Public.
        noise: of the helper; seeded, it gives other numbers than the leader's streams of the same seed. Secret.

    Returns:
        By release name: int64, shape (rows, width), units of 2^shift.
    """
    return {
        request.name: lattice_noise(
            request.release, noise.stream(f"helper {request.name}"), shift=packing.shifts[request.name]
        )
        for request in packing.requests
    }
