"""The public numbers of two servers, alike for leader, helper and clients: sizes, and what shares are bound to.

Each server adds all of the noise, on the lattice that their shares lie on.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final, Self

import msgspec
import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource, NoiseStream
from fedboard.common.protocols.sums.residues import Packing, own_stddevs
from fedboard.common.protocols.two_server.shares import Layout

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


_MOST_USERS, _MOST_ITEMS = 1 << 24, 1 << 16


class _Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    most_users: int
    most_items: int
    survivors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoServerRules:
    """What all sides compute alike. Every field is public."""

    most_users: int
    """Users whose contributions the sums have room for."""
    most_items: int
    """Items that a user sends, whatever she has rated: padded to it, or cut to those of largest weight."""
    survivors: int
    """Fewest clients that make a sum."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: a number out of range.
        """
        ranges = {"most_users": _MOST_USERS, "most_items": _MOST_ITEMS, "survivors": self.most_users}
        for name, most in ranges.items():
            if not 1 <= getattr(self, name) <= most:
                raise InputError(
                    f"two-server's {name} must be a whole number in 1..{most}, got {getattr(self, name)}"
                )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Public: sizes, and the fewest clients."""
        return {"most_users": self.most_users, "most_items": self.most_items, "survivors": self.survivors}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """What a server states.

        Raises:
            InputError: not the parameters of this protocol.
        """
        try:
            read = msgspec.convert(dict(parameters), _Parameters)
        except msgspec.ValidationError as error:
            raise InputError(
                f"two-server has the settings most_users, most_items, survivors: {error}"
            ) from error
        return cls(most_users=read.most_users, most_items=read.most_items, survivors=read.survivors)

    def packing(self, requests: Sequence[Request]) -> Packing:
        """The round's numbers modulo 2^32, with room for the noise of both servers.

        Raises:
            InputError: no room.
        """
        noise = own_stddevs(requests, times=NOISE_RATIO)
        return Packing.of(requests, most_users=self.most_users, noise_stddevs=noise)

    def layout(self, about: bytes, requests: Sequence[Request]) -> Layout:
        """Where the round's numbers are.

        Raises:
            InputError: the protocol cannot carry these requests.
        """
        return Layout(about=about, packing=self.packing(requests), most_items=self.most_items)

    def bound(self, about: bytes) -> bytes:
        """What the helper's key and shares are bound to: the round and all parameters.

        A leader that tells the helper other parameters than clients, and so another scale of its noise, gets shares
        that the helper cannot open.
        """
        stated = json.dumps(dict(self.parameters), sort_keys=True).encode()
        return b"two-server\n" + hashlib.sha256(stated).hexdigest().encode() + b"\n" + about
