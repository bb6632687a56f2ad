"""Sums of contributions that are truncated user by user: what a client adds up itself, in units of 2^shift.

Truncation goes toward zero, number by number, so every user's part keeps every bound on its norm, in isometric
coordinates too, and is the same whichever client hosts her. With shift 0 nothing is truncated.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import BoolArray, IndexArray, IntArray, ShortArray
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.errors import PrivacyError
from fedboard.common.protocols.sums.exact import FactoredSums, index_by_item, whole_sums
from fedboard.common.protocols.sums.residues import require_signs
from fedboard.common.protocols.sums.row_bounds import asked_rows, rows_within_bounds

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
