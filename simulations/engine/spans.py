"""The exact sums of a span of users, gone through in blocks: what every engine that streams runs, and merges."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import process_time
from typing import TypeAlias

import numpy as np

from fedboard.common.arrays import BitArray, BoolArray, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.checks import require_whole
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.contribution_bounding.participation import PresentRows
from fedboard.common.contribution_bounding.personal import require_personal_bounds, scale_contribution
from fedboard.common.errors import InputError
from fedboard.common.protocols.sums.exact import FactoredSums
from fedboard.common.protocols.sums.row_bounds import asked_rows, kept_rows
from fedboard.common.protocols.trusted import Trusted, factored_bytes
from fedboard.common.task import ClientTask
from fedboard.server.runtime import item_blocks
from fedboard.simulations.data.id_keys import Kind, id_keys
from fedboard.simulations.data.sorting import cut
from fedboard.simulations.data.splits import Splitting
from fedboard.simulations.data.stream import ROOM_OF_A_USER, UserStream
from fedboard.simulations.engine.merging import (
    SpanRead,
    SpanSums,
)

BLOCK_RATINGS = 1 << 20
"""Of a block, unless somebody says otherwise."""
MOST_BYTES = 2 << 30
"""Of one set of dense sums, unless somebody says otherwise."""
_NUMBERS_PER_RATING = 10
"""Of what a user gives beside her ratings, so many are counted as one rating where blocks are cut."""
ScalesOf: TypeAlias = Callable[[BitArray], FloatArray]
"""Keys of users -> their personal levels, see ``fedboard.common.contribution_bounding.personal``; picklable."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SpanWork:
    """What all spans of a round share; picklable. Public, but for the stream and for who takes part."""

    task: ClientTask
    stream: UserStream
    splitting: Splitting | None
    """What of the ratings is learnt from; None: all, of rows that were split before."""
    requests: tuple[Request, ...]
    backend: str
    """Which kernels compute."""
    block_ratings: int = BLOCK_RATINGS
    """At most so many ratings are read at once, or one user's."""
    present: PresentRows | None = None
    """Who takes part; None for everybody. Secret."""
    scales_of: ScalesOf | None = None
    """Personal levels; None where the run's guarantee is everybody's."""
    protocol: Trusted | None = None
    """Who checks each row against every bound, of the factored form; None: the trusted protocol as it is."""
    summed: tuple[Request, ...] | None = None
    """Those of the requests of which sums are formed; None: all."""
    rows: tuple[int, int] | None = None
    """Which rows of their sums are formed, first and one past the last; None: all."""

    def zeros(self) -> dict[str, IntArray]:
        """Sums over nobody, int64, shape (rows, width) each."""
        asked = self.requests if self.summed is None else self.summed
        start, stop = self.rows or (0, None)
        return {
            r.name: np.zeros(((stop or r.release.rows) - start, r.release.width), dtype=np.int64)
            for r in asked
        }

    def learnt_of(self, block: Cohort) -> Cohort:
        """What of a block of users' ratings is learnt from. Private."""
        if self.splitting is None:
            return block
        return self.splitting.train(block, item_keys_of(self.stream))

    def given(self, board: Board, start: int, stop: int) -> Contribution:
        """What users ``start:stop`` give, all at once.

        Raises:
            PrivacyError: a row breaks its declared bound.
        """
        return self.checked(board, self.learnt_of(self.stream.read(start, stop)))

    def checked(self, board: Board, cohort: Cohort) -> Contribution:
        """What these users give; those who take no part have empty rows.

        Args:
            board: public.
            cohort: what is learnt of them. Private.

        Raises:
            PrivacyError: a row breaks its declared bound, or that of its user's own level.
        """
        first, last = cohort.first_row, cohort.first_row + cohort.n_users
        given = given_by(
            self.task,
            cohort,
            board,
            self.requests,
            present=None if self.present is None else self.present.rows(first, last),
            scales=None if self.scales_of is None else self.scales_of(cohort.keys),
        )
        return (self.protocol or Trusted(backend=self.backend)).encode(given, self.requests)


def sums_of_span(work: SpanWork, board: Board, start: int, stop: int) -> SpanSums:
    """The exact sums over users ``start:stop``, each of whose rows was checked against every bound.

    Guarantee: the same numbers whatever the blocks are, and whoever computes them.
    Memory: of a block (about 100 bytes a rating, for ``block_ratings`` of them or one user's), of the sums (8 bytes
    a number), and 8 bytes a user of the span.

    Args:
        work: of the round.
        board: public.
        start: first user.
        stop: one past the last.

    Raises:
        InputError: there are no such users, so many that their sums might not fit 64 bits, or their ratings cannot
            be read.
        PrivacyError: a row breaks its declared bound.
    """
    if not 0 <= start < stop <= work.stream.n_users:
        raise InputError(f"users {start} to {stop} are no span of a stream of {work.stream.n_users} users")
    _require_headroom(work.requests, stop - start)
    began, n_ratings, n_learnt_from = process_time(), 0, 0
    trace = None if work.splitting is None else _Trace()  # what was split before is held, and does not change
    sums, sizes = work.zeros(), dict[int, int]()
    totals = sum(r.release.width for r in work.requests if r.source is SumSource.TOTAL)
    room = ROOM_OF_A_USER + totals // _NUMBERS_PER_RATING
    for block in blocks_of(work.stream, start, stop, work.block_ratings, room_of_a_user=room):
        if trace is not None:
            trace.update(block)
        cohort = work.learnt_of(block)
        n_ratings += cohort.n_ratings
        n_learnt_from += int(np.count_nonzero(cohort.counts))
        _add_block(work, board, cohort, into=sums, sizes=sizes)
    return SpanSums(
        sums=sums,
        spans={start: SpanRead(stop=stop, digest=b"" if trace is None else trace.digest())},
        n_ratings=n_ratings,
        n_learnt_from=n_learnt_from,
        sizes=sizes,
        seconds=process_time() - began,
    )


def _require_headroom(requests: Iterable[Request], n_users: int) -> None:
    """Each of them moves a sum by her bound at most. Public."""
    bound = max((request.release.l2_bound for request in requests), default=0)
    if n_users * bound >= 1 << 62:
        raise InputError(
            f"the sums over {n_users} users might not fit 64-bit integers; take spans of at most "
            f"{(1 << 62) // bound} users"
        )


def room_of(requests: Iterable[Request], n_items: int) -> int:
    """Bytes that the sums of one round take, also as planned before the catalogue was known. Public."""
    return sum(_bytes_of(request, n_items) for request in requests)


def _bytes_of(request: Request, n_items: int) -> int:
    release = request.release
    if request.source is SumSource.ITEM_PAIRS:  # formed from a matrix of all pairs
        return 8 * n_items * n_items
    return 8 * release.width * (n_items if request.source.per_item else release.rows)


def blocks_of(
    stream: UserStream, start: int, stop: int, most_ratings: int, *, room_of_a_user: int = ROOM_OF_A_USER
) -> Iterator[Cohort]:
    """All ratings of users ``start:stop``, a block of at most so many at a time, or one user's. Private.

    Each user counts as ``room_of_a_user`` ratings more.

    Raises:
        InputError: they cannot be read, or the stream contradicts itself.
    """
    require_whole("ratings in a block", most_ratings)
    counts = stream.counts(start, stop)
    for first, last in cut(counts + room_of_a_user, most_ratings):
        block = stream.read(start + first, start + last)
        expected = counts[first:last]
        if not (block.first_row == start + first and np.array_equal(block.counts, expected)):
            raise InputError(
                f"{stream.name}: its users do not have as many ratings as it says of them; make it anew"
            )
        yield block


def _add_block(
    work: SpanWork, board: Board, cohort: Cohort, *, into: dict[str, IntArray], sizes: dict[int, int]
) -> None:
    """Add what the users of a block give."""
    given = work.checked(board, cohort)
    sent = factored_bytes(given)
    if work.present is not None:
        sent = sent[work.present.rows(cohort.first_row, cohort.first_row + cohort.n_users)]
    _count(sent, sizes)
    summed, first = work.requests if work.summed is None else work.summed, (work.rows or (0, 0))[0]
    sums = FactoredSums.of(asked_rows(given, work.requests), backend=work.backend)
    add_sums(sums, summed, into, first=first)


def _count(numbers: IntArray, into: dict[int, int]) -> None:
    for number, times in zip(*np.unique(numbers, return_counts=True), strict=True):
        into[int(number)] = into.get(int(number), 0) + int(times)


def add_sums(
    sums: FactoredSums, requests: Iterable[Request], into: Mapping[str, IntArray], *, first: int = 0
) -> None:
    """Add sums to others in place, formed in blocks of items, so that no second set of them exists.

    Args:
        sums: over some users. Secret.
        requests: of which.
        into: those that are added to, which begin at row ``first``. Secret.
        first: number of that row.
    """
    asked = tuple(requests)
    for rows in sorted({request.release.rows for request in asked}):
        together = [request for request in asked if request.release.rows == rows]
        behind = first + len(into[together[0].name])
        for block_start, block_stop in item_blocks(together):
            start, stop = max(first, block_start), min(behind, block_stop)
            if start < stop:
                for name, values in sums.block(together, start, stop).items():
                    into[name][start - first : stop - first] += values


def given_by(
    task: ClientTask,
    cohort: Cohort,
    board: Board,
    requests: tuple[Request, ...],
    *,
    present: BoolArray | None = None,
    scales: FloatArray | None = None,
) -> Contribution:
    """The contribution of a cohort in which those who take no part have empty rows.

    Guarantee: each row depends on that user's row, the board, her coin and her level alone.
    Not guaranteed: the requests' bounds; whoever sums the rows checks them (``rows_within_bounds``).

    Args:
        task: what is learnt.
        cohort: the users' ratings. Private.
        board: public.
        requests: of this round.
        present: bool, shape (n_users,): who takes part; None for everybody.
        scales: personal levels, float64, shape (n_users,); None where the run's guarantee is everybody's.

    Raises:
        PrivacyError: a row breaks the bound of its user's own level.
    """
    if present is not None:
        cohort = cohort.where(np.repeat(present, cohort.counts))
    contribution = task.contribute(cohort, board, requests)
    if present is not None:  # totals and the like, which an empty row may have too
        contribution = kept_rows(contribution, present)
    if scales is not None:
        contribution = scale_contribution(contribution, requests, scales)
        require_personal_bounds(contribution, requests, scales)
    return contribution


class _Trace:
    """A digest of all that is read, the same for any blocks."""

    def __init__(self) -> None:
        self._parts = {
            name: hashlib.blake2b(digest_size=16) for name in ("counts", "items", "ratings", "keys")
        }

    def update(self, block: Cohort) -> None:
        arrays = {"counts": block.counts, "items": block.items, "ratings": block.ratings, "keys": block.keys}
        for name, array in arrays.items():
            self._parts[name].update(np.ascontiguousarray(array).data)

    def digest(self) -> bytes:
        return hashlib.blake2b(b"".join(p.digest() for p in self._parts.values()), digest_size=16).digest()


_KEYS_OF: dict[str, BitArray] = {}
"""Of the last stream's items: a worker goes through many blocks of one stream."""


def item_keys_of(stream: UserStream) -> BitArray:
    """Keys of the catalogue, uint64, shape (n_items,), see ``id_keys``; made once per process. Public."""
    if stream.identity not in _KEYS_OF:
        _KEYS_OF.clear()
        _KEYS_OF[stream.identity] = id_keys(stream.item_ids.tolist(), Kind.ITEM)
    return _KEYS_OF[stream.identity]
