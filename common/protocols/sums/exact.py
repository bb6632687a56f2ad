"""Exact sums of contributions: computed block by block from factored rows, or held as dense arrays.

They grow message by message, whatever form the messages have.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from fedboard.common.arrays import BoolArray, IndexArray, IntArray, ShortArray
from fedboard.common.contribution import Contribution, Request, SumSource, required
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.kernels.sums import item_statistics, pair_sums
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.row_bounds import joined, kept_rows, rows_to_sum


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemIndex:
    """Compressed columns. ``entries[k]`` points into the user-major arrays, ``users[k]`` is that entry's row."""

    indptr: IntArray
    """int64, shape (n_items + 1,)."""
    users: IndexArray
    """int32, shape (n_entries,), ascending within an item."""
    entries: IntArray
    """int64, shape (n_entries,)."""


def index_by_item(indptr: IntArray, items: IndexArray, n_items: int) -> ItemIndex:
    """Transpose the structure of compressed rows.

    scipy's conversion is a counting sort that keeps the order of users within an item; of a matrix whose values
    are the places of the entries it gives both arrays at once.
    """
    from scipy.sparse import csr_array  # slow to import, and a device that sends its rows never needs it

    entries = np.arange(items.size, dtype=np.int64)
    # With bounds of the type of the items scipy does not widen the items.
    bounds = indptr.astype(items.dtype) if items.size <= np.iinfo(items.dtype).max else indptr
    columns = csr_array((entries, items, bounds), shape=(indptr.size - 1, n_items)).tocsc()
    return ItemIndex(
        indptr=columns.indptr.astype(np.int64, copy=False),
        users=columns.indices.astype(np.int32, copy=False),
        entries=columns.data,
    )


_ROWS_AT_ONCE = 8192
_ENTRIES_AT_ONCE = 1 << 18
_Statistics = dict[SumSource, IntArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactoredSums:
    """Sums that are formed from rows when a block of items is asked for, so they never exist all at once."""

    contribution: Contribution
    index: ItemIndex
    rejected_rows: int = 0
    backend: str = "numpy"
    noise_shares: ClassVar[int] = 0
    noise_ratio: ClassVar[float] = 1.0
    residue_bits: ClassVar[Mapping[str, int]] = MappingProxyType({})

    @staticmethod
    def of(
        contribution: Contribution,
        *,
        keep: BoolArray | None = None,
        index: ItemIndex | None = None,
        backend: str = "numpy",
    ) -> "FactoredSums":
        """Sums over the rows that ``keep`` (bool, shape (n_users,)) admits; all rows if None."""
        rejected = 0 if keep is None else int(np.count_nonzero(~keep))
        if rejected and keep is not None:
            contribution = kept_rows(contribution, keep)
        if index is None:
            index = index_by_item(contribution.indptr, contribution.items, contribution.n_items)
        return FactoredSums(contribution=contribution, index=index, rejected_rows=rejected, backend=backend)

    def block(self, requests: Sequence[Request], start: int, stop: int) -> dict[str, IntArray]:
        """Rows ``start:stop`` of these requests' exact sums; both item statistics come from one pass."""
        statistics = self._statistics(requests, start, stop)
        return {request.name: self._rows(request, statistics, start, stop) for request in requests}

    def _rows(self, request: Request, statistics: _Statistics, start: int, stop: int) -> IntArray:
        match request.source:
            case SumSource.TOTAL:
                rows = self.contribution.totals[request.name]
                total: IntArray = rows.sum(axis=0, dtype=np.int64)[None, :]
                return total[start:stop]
            case SumSource.QUADRATIC:
                return self._quadratic()[None, :][start:stop]
            case SumSource.ITEM_PAIRS:
                return self._pairs()[None, :][start:stop]
            case SumSource.ITEM_COUNT:
                return self._counts(start, stop)
            case SumSource.ITEM_LINEAR | SumSource.ITEM_QUADRATIC:
                return statistics[request.source]

    def _counts(self, start: int, stop: int) -> IntArray:
        weights = required(self.contribution.weights, "weights")
        if (start, stop) == (0, self.contribution.n_items):
            return self._all_counts(weights)
        first, last = self.index.indptr[start], self.index.indptr[stop]
        values = weights[self.index.entries[first:last]].astype(np.int64)
        running = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(values)])
        bounds = self.index.indptr[start : stop + 1] - first
        counts: IntArray = np.diff(running[bounds])[:, None]
        return counts

    def _all_counts(self, weights: ShortArray) -> IntArray:
        """The counts of all items, in the order of the entries: reading along is faster than looking up."""
        items, n_items = self.contribution.items, self.contribution.n_items
        counts = np.zeros(n_items, dtype=np.int64)
        for first in range(0, items.size, _ENTRIES_AT_ONCE):
            part = slice(first, first + _ENTRIES_AT_ONCE)
            sums = np.bincount(items[part], weights=weights[part], minlength=n_items)
            counts += sums.astype(np.int64)  # exact: 2^15 per entry, 2^18 entries, below 2^53
        return counts[:, None]

    def _statistics(self, requests: Sequence[Request], start: int, stop: int) -> _Statistics:
        asked = {request.source for request in requests} & {SumSource.ITEM_LINEAR, SumSource.ITEM_QUADRATIC}
        if not asked:
            return {}
        rows = self.contribution
        quadratic, linear = item_statistics(
            self.index.indptr,
            self.index.users,
            self.index.entries,
            required(rows.vectors, "vectors"),
            required(rows.weights, "weights"),
            required(rows.responses, "responses"),
            start=start,
            stop=stop,
            quadratic=SumSource.ITEM_QUADRATIC in asked,
            backend=self.backend,
        )
        found: _Statistics = {SumSource.ITEM_LINEAR: linear}
        return found if quadratic is None else {**found, SumSource.ITEM_QUADRATIC: quadratic}

    def _pairs(self) -> IntArray:
        """All pairs of items, packed: for small catalogues."""
        rows = self.contribution
        responses = required(rows.responses, "responses")
        return pair_sums(rows.indptr, rows.items, responses, n_items=rows.n_items, backend=self.backend)

    def _quadratic(self) -> IntArray:
        vectors = required(self.contribution.vectors, "vectors")
        rank = vectors.shape[1]
        total = np.zeros((rank, rank), dtype=np.int64)
        for first in range(0, vectors.shape[0], _ROWS_AT_ONCE):
            rows = vectors[first : first + _ROWS_AT_ONCE].astype(np.float64)
            total += np.rint(rows.T @ rows).astype(np.int64)  # exact: 2^24 per row, 2^13 rows, below 2^53
        packed: IntArray = total[np.triu_indices(rank)]
        return packed


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseSums:
    """Sums that are held as arrays, by release name."""

    sums: Mapping[str, IntArray]
    rejected_rows: int = 0
    noise_shares: int = 0
    """How many honest clients' shares of the noise are in them at least; 0 where they are exact."""
    noise_ratio: float = 1.0
    """Deviation of all noise in what will be published, over the booked one; >= 1. Public."""
    residue_bits: Mapping[str, int] = field(default_factory=dict)
    """By release name, where the sums are known modulo 2^bits only."""

    def block(self, requests: Sequence[Request], start: int, stop: int) -> dict[str, IntArray]:
        """Rows ``start:stop`` of these requests' exact sums."""
        return {request.name: self.sums[request.name][start:stop] for request in requests}

    @staticmethod
    def total(parts: Iterable[Mapping[str, IntArray]], requests: Sequence[Request]) -> "DenseSums":
        """Add dense parts up; integers, so the order does not matter."""
        sums = {r.name: np.zeros((r.release.rows, r.release.width), dtype=np.int64) for r in requests}
        for part in parts:
            for request in requests:
                if part[request.name].shape != sums[request.name].shape:
                    raise InputError(
                        f"a part of release {request.name!r} has another shape than was asked for"
                    )
                sums[request.name] += part[request.name]
        return DenseSums(sums=sums)

    @staticmethod
    def total_of(members: Sequence[ExactSums], requests: Sequence[Request]) -> "DenseSums":
        """Add up the sums of different clients, of any kind; refused rows and noise shares are counted together.

        Raises:
            PrivacyError: some are exact and others hold noise shares, so they were not made for one release.
        """
        shares = [member.noise_shares for member in members]
        if any(shares) and not all(shares):
            raise PrivacyError(
                "exact sums and sums with noise shares cannot be added up; nothing was released"
            )
        parts = (whole_sums(member, requests) for member in members)
        return replace(
            DenseSums.total(parts, requests),
            rejected_rows=sum(member.rejected_rows for member in members),
            noise_shares=sum(shares),
            noise_ratio=max((member.noise_ratio for member in members), default=1.0),
            residue_bits={name: bits for member in members for name, bits in member.residue_bits.items()},
        )


def whole_sums(sums: ExactSums, requests: Sequence[Request]) -> dict[str, IntArray]:
    """All rows of every request; releases differ in their number of rows, so each is asked for alone."""
    found: dict[str, IntArray] = {}
    for rows in sorted({request.release.rows for request in requests}):
        found |= sums.block([r for r in requests if r.release.rows == rows], 0, rows)
    return found


_MOST_ENTRIES = 1 << 26
"""Rows with more ratings than this are summed before more are taken."""


@dataclass(slots=True, kw_only=True)
class RunningSums:
    """The sums of all messages so far.

    Rows are held, about 8 bytes per rating and 2 rank bytes per user, because their sums are formed block by block
    of items; beyond 67 million ratings (about 0.6 GB) they are summed and forgotten.
    """

    requests: tuple[Request, ...]
    backend: str = "numpy"
    rejected_rows: int = 0
    _dense: DenseSums | None = None
    _rows: list[Contribution] = field(default_factory=list)
    _entries: int = 0

    def add_rows(self, contribution: Contribution) -> None:
        """Add the rows that keep their bounds; count the others."""
        kept = rows_to_sum(contribution, self.requests)
        self.rejected_rows += contribution.n_users - (0 if kept is None else kept.n_users)
        if kept is None or not kept.n_users:
            return
        self._rows.append(kept)
        self._entries += kept.items.size
        if self._entries > _MOST_ENTRIES:
            self._dense = DenseSums.total_of(self._members(), self.requests)
            self._rows, self._entries = [], 0

    def sums(self) -> ExactSums:
        """All of it."""
        members = self._members()
        if len(members) == 1:
            return replace(members[0], rejected_rows=self.rejected_rows)
        return replace(DenseSums.total_of(members, self.requests), rejected_rows=self.rejected_rows)

    def _members(self) -> list[DenseSums | FactoredSums]:
        members: list[DenseSums | FactoredSums] = [] if self._dense is None else [self._dense]
        if self._rows:
            members.append(FactoredSums.of(joined(self._rows), backend=self.backend))
        return members
