"""All sums of a round as one vector of residues modulo 2^32: what masks, shares and point functions add up.

A sum must stay within +-2^31, so releases whose bound is too fine for that are coarsened: each user's numbers are
truncated toward zero to multiples of 2^shift (``coarse_sums``), number by number. So every user's part keeps every
bound on its norm, in isometric coordinates too, and is the same whichever client hosts them. With shift 0 nothing
is truncated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray, IndexArray, IntArray, ShortArray
from fedboard.common.contribution import Contribution, Request, SumSource, numbers_of
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.protocols.sums.exact import FactoredSums, index_by_item, whole_sums
from fedboard.common.protocols.sums.row_bounds import asked_rows, rows_within_bounds

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


_NUMBERS_PER_BLOCK = 1 << 20  # 8 MiB, and a few arrays of that size at a time


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CoarseRows:
    """A contribution's numbers before they are summed, truncated, in units of 2^shift. Private."""

    entries: IntArray
    """Per-item requests: int64, shape (n_entries, B), side by side in the order of the requests."""
    totals: Mapping[str, IntArray]
    """All other requests, by name: int64, shape (n_users, width)."""


def coarse_sums(
    contribution: Contribution,
    requests: Sequence[Request],
    shifts: Mapping[str, int],
    *,
    backend: str = "numpy",
) -> dict[str, IntArray]:
    """Sum of ``trunc(x_j / 2^shift)`` over users j; with shift 0 the exact sums of ``FactoredSums``.

    Holds the sums and blocks of about a million numbers besides.

    Args:
        contribution: private.
        requests: of the round.
        shifts: by release name; missing ones are 0.
        backend: which kernels compute exact sums.

    Returns:
        By release name: int64, shape (rows, width), in units of 2^shift. Private.

    Raises:
        InputError: the contribution does not fit the requests.
        PrivacyError: a row breaks a bound, or truncation breaks what a sensitivity relies on.
    """
    rows = _checked(contribution, requests, shifts)
    exact = [request for request in requests if not shifts.get(request.name, 0)]
    sums = whole_sums(FactoredSums.of(rows, backend=backend), exact) if exact else {}
    return sums | {r.name: _truncated_sum(rows, r, shifts[r.name]) for r in requests if r.name not in sums}


def coarse_rows(
    contribution: Contribution, requests: Sequence[Request], shifts: Mapping[str, int]
) -> CoarseRows:
    """The same numbers, entry by entry and user by user: for few users, since nothing is summed.

    Args and raises: as for ``coarse_sums``.
    """
    rows = _checked(contribution, requests, shifts)
    users = np.repeat(np.arange(rows.n_users), np.diff(rows.indptr))
    everything = slice(0, rows.items.size)
    blocks = [
        truncated(_entry_products(rows, r, users, everything), shifts.get(r.name, 0))
        for r in requests
        if r.source.per_item
    ]
    return CoarseRows(
        entries=np.hstack(blocks) if blocks else np.zeros((rows.items.size, 0), dtype=np.int64),
        totals={
            r.name: np.vstack([part for _, part in _user_products(rows, r, shifts.get(r.name, 0))])
            for r in requests
            if not r.source.per_item
        },
    )


def truncated(values: IntArray, shift: int) -> IntArray:
    """``trunc(values / 2^shift)``, toward zero; int64."""
    if not shift:
        return values
    coarse: IntArray = (values + ((values >> 63) & ((1 << shift) - 1))) >> shift
    return coarse


def _checked(
    contribution: Contribution, requests: Sequence[Request], shifts: Mapping[str, int]
) -> Contribution:
    require_signs(requests, shifts)
    rows = asked_rows(contribution, requests)
    kept: BoolArray = rows_within_bounds(rows, requests)
    if not kept.all():
        raise PrivacyError("a contribution breaks its declared bound; nothing was sent")
    return rows


def _truncated_sum(rows: Contribution, request: Request, shift: int) -> IntArray:
    if request.source.per_item:
        return _truncated_item_sum(rows, request, shift)
    if request.source is SumSource.ITEM_PAIRS:
        return _truncated_pair_sum(rows, request, shift)
    total = np.zeros((1, request.release.width), dtype=np.int64)
    for _, part in _user_products(rows, request, shift):
        total += part.sum(axis=0)
    return total


def _truncated_item_sum(rows: Contribution, request: Request, shift: int) -> IntArray:
    """Entries in the order of their items, so that an item's are added by one ``reduceat``."""
    total = np.zeros((request.release.rows, request.release.width), dtype=np.int64)
    index = index_by_item(rows.indptr, rows.items, rows.n_items)
    step = max(1, _NUMBERS_PER_BLOCK // request.release.width)
    for first in range(0, index.entries.size, step):
        entries = index.entries[first : first + step]
        values = truncated(_entry_products(rows, request, index.users[first : first + step], entries), shift)
        items = rows.items[entries]
        starts = np.flatnonzero(np.diff(items, prepend=-1))
        total[items[starts]] += np.add.reduceat(values, starts, axis=0)
    return total


def _truncated_pair_sum(rows: Contribution, request: Request, shift: int) -> IntArray:
    total = np.zeros(request.release.width, dtype=np.int64)
    for user in range(rows.n_users):
        for places, values in _pairs(rows, user):
            total[places] += truncated(values, shift)
    return total[np.newaxis]


def _entry_products(
    rows: Contribution, request: Request, users: IndexArray | IntArray, entries: IntArray | slice
) -> IntArray:
    """``w``, ``w r v`` or ``w v v^T`` of these entries; int64, shape (n, width)."""
    weights = _of(rows.weights)[entries].astype(np.int64)[:, np.newaxis]
    if request.source is SumSource.ITEM_COUNT:
        return weights
    vectors = _of(rows.vectors)[users].astype(np.int64)
    if request.source is SumSource.ITEM_LINEAR:
        products: IntArray = vectors * (weights * _of(rows.responses)[entries][:, np.newaxis])
        return products
    return _squares(vectors) * weights


def _user_products(rows: Contribution, request: Request, shift: int) -> Iterator[tuple[int, IntArray]]:
    """Blocks of users' truncated numbers: (first user, int64 of shape (users of the block, width))."""
    step = max(1, _NUMBERS_PER_BLOCK // request.release.width)
    for first in range(0, max(1, rows.n_users), step):  # one empty block where there is nobody
        part = slice(first, min(first + step, rows.n_users))
        if request.source is SumSource.TOTAL:
            values = rows.totals[request.name][part]
        elif request.source is SumSource.QUADRATIC:
            values = _squares(_of(rows.vectors)[part].astype(np.int64))
        else:
            values = np.zeros((part.stop - first, request.release.width), dtype=np.int64)
            for user in range(first, part.stop):
                for places, products in _pairs(rows, user):
                    values[user - first, places] = products
        yield first, truncated(values, shift)


def _squares(vectors: IntArray) -> IntArray:
    """Packed upper triangles of ``v v^T``, row by row; int64, shape (n, rank (rank + 1) / 2)."""
    left, right = np.triu_indices(vectors.shape[1])
    products: IntArray = vectors[:, left] * vectors[:, right]
    return products


def _pairs(rows: Contribution, user: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Where a user's ``r_i r_k`` belong in the packed matrix of all pairs of items, and what they are."""
    own = slice(int(rows.indptr[user]), int(rows.indptr[user + 1]))
    items, responses = rows.items[own].astype(np.int64), _of(rows.responses)[own].astype(np.int64)
    step = max(1, _NUMBERS_PER_BLOCK // max(1, items.size))
    before = items * rows.n_items - items * (items + 1) // 2  # place of (i, k) is before_i + k
    for first in range(0, items.size, step):
        part = slice(first, first + step)
        upper = np.arange(items.size) >= np.arange(items.size)[part, np.newaxis]
        places = before[part, np.newaxis] + items
        yield places[upper], (responses[part, np.newaxis] * responses)[upper]


def _of(values: ShortArray | None) -> ShortArray:
    assert values is not None  # ``asked_rows`` refuses a contribution without it
    return values
