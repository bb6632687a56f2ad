"""All sums of a round as one vector of residues modulo 2^32: what masks, shares and point functions add up.

A sum must stay within +-2^31, so releases whose bound is too fine for that are coarsened: each user's numbers are
truncated toward zero to multiples of 2^shift (``coarse_sums``), which keeps every bound on their norm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Request, SumSource, numbers_of
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease

RESIDUE_BITS = 32
_HALF = 1 << RESIDUE_BITS - 1
_LEAST_UNITS = 1 << 6
"""Units of a bound that must be left: truncation takes up to one unit of every number of every user."""
_LARGEST_DRAW = 12.0
_MATRICES = (SumSource.QUADRATIC, SumSource.ITEM_QUADRATIC, SumSource.ITEM_PAIRS)
_NO_NOISE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Requests as one vector of residues: one after the other, each row by row. Public."""

    requests: tuple[Request, ...]
    shifts: Mapping[str, int]
    """By release name: how many low bits of the grid are not sent."""
    most_users: int
    """Users whose contributions the sums have room for."""

    @staticmethod
    def of(
        requests: Sequence[Request], *, most_users: int, noise_stddevs: Mapping[str, float] | None = None
    ) -> "Packing":
        """The finest packing that has room for everybody.

        The smallest shift with ``most_users (l2_bound >> shift) + 12 noise_stddev / 2^shift < 2^31``: no honest sum
        wraps around.

        Args:
            requests: of the round.
            most_users: > 0.
            noise_stddevs: by release name, deviation of all noise that is ever added to the residues, grid units;
                None: the release's own, once.

        Raises:
            InputError: no room, or less than 64 units of a bound would be left.
            PrivacyError: truncation would break what a release's sensitivity relies on.
        """
        if most_users < 1:
            raise InputError(f"most_users must be at least 1, got {most_users}")
        if noise_stddevs is None:
            noise_stddevs = own_stddevs(requests)
        shifts = {r.name: _shift(r.release, most_users, noise_stddevs.get(r.name, 0.0)) for r in requests}
        require_signs(requests, shifts)
        return Packing(requests=tuple(requests), shifts=shifts, most_users=most_users)

    @property
    def size(self) -> int:
        """Numbers in the vector."""
        return numbers_of(self.requests)

    def flatten(self, coarse: Mapping[str, IntArray]) -> NDArray[np.uint32]:
        """Coarse integers as residues.

        Args:
            coarse: by release name, int64, shape (rows, width), in units of 2^shift. Private.

        Returns:
            uint32, shape (size,).
        """
        residues = np.empty(self.size, dtype=np.uint32)
        start = 0
        for request in self.requests:
            values = coarse[request.name]
            if values.shape != (request.release.rows, request.release.width):
                raise InputError(f"sums of release {request.name!r} have another shape than was asked for")
            residues[start : start + values.size] = values.astype(np.uint32).ravel()
            start += values.size
        return residues

    def unflatten(self, residues: NDArray[np.uint32]) -> dict[str, IntArray]:
        """Centred sums on the release's own grid: int64, shape (rows, width), by release name.

        Raises:
            InputError: not a vector of this packing.
        """
        if residues.dtype != np.uint32 or residues.shape != (self.size,):
            raise InputError(f"a packed vector must be uint32 of shape ({self.size},)")
        sums, start = {}, 0
        for request in self.requests:
            rows, width = request.release.rows, request.release.width
            part = np.ascontiguousarray(residues[start : start + rows * width]).view(np.int32)
            sums[request.name] = part.astype(np.int64).reshape(rows, width) << self.shifts[request.name]
            start += rows * width
        return sums

    @property
    def residue_bits(self) -> dict[str, int]:
        """By release name: the sums are known modulo 2^bits, in units of the release's own grid."""
        return {name: RESIDUE_BITS + shift for name, shift in self.shifts.items()}

    def plausible(
        self, sums: Mapping[str, IntArray], *, n_users: int, noise_stddevs: Mapping[str, float] = _NO_NOISE
    ) -> bool:
        """Whether these can be sums of so many honest users: the L2 norm of each is at most ``n_users l2_bound``.

        Numbers that masks were left on fail this, whatever their number: they are as large as 2^31.

        Args:
            sums: as ``unflatten`` gives them. Private.
            n_users: whose contributions are in them.
            noise_stddevs: as for ``of``.
        """
        for request in self.requests:
            shift, stddev = self.shifts[request.name], noise_stddevs.get(request.name, 0.0)
            values = sums[request.name].astype(np.float64)
            most = float(n_users * (request.release.l2_bound >> shift) << shift) * (1.0 + 1e-9)
            if np.linalg.norm(values) > most + stddev * (sqrt(values.size) + _LARGEST_DRAW):
                return False
        return True


def own_stddevs(requests: Sequence[Request], *, times: float = 1.0) -> dict[str, float]:
    """Deviation of each release's own noise, so many times as large; by release name, grid units. Public."""
    return {request.name: times * request.release.noise_stddev for request in requests}


def require_signs(requests: Sequence[Request], shifts: Mapping[str, int]) -> None:
    """Refuse to coarsen matrices whose sensitivity relies on their being positive semi-definite.

    Truncated numbers keep their sign, truncated matrices may lose a sign of an eigenvalue, and the inner product of
    two of them may then be negative, against what ``sensitivity_factor`` takes for granted.

    Raises:
        PrivacyError: a request is such a matrix.
    """
    for request in requests:
        release = request.release
        relies = release.same_sign and release.adjacency is not Adjacency.ADD_REMOVE
        if relies and request.source in _MATRICES and shifts.get(request.name, 0):
            raise PrivacyError(
                f"release {request.name!r} cannot be coarsened under adjacency '{release.adjacency}': its "
                "sensitivity relies on positive semi-definite matrices; use adjacency 'add-remove' or fewer users"
            )


def _shift(release: GaussianRelease, most_users: int, noise_stddev: float) -> int:
    shift = 0
    while most_users * (release.l2_bound >> shift) + _LARGEST_DRAW * noise_stddev / 2**shift >= _HALF:
        shift += 1
    if shift and release.l2_bound >> shift < _LEAST_UNITS:
        raise InputError(
            f"release {release.name!r}: {most_users} users and their noise leave {release.l2_bound >> shift} units "
            f"of its bound in sums modulo 2^{RESIDUE_BITS}, and at least {_LEAST_UNITS} are needed; "
            "use fewer users or a larger epsilon"
        )
    return shift
