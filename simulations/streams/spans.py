"""The exact sums of a span of users, gone through in blocks: what every engine that streams runs, and merges."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import process_time

import numpy as np

from fedboard.common.arrays import BitArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request, SumSource
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.per_user.participation import PresentRows
from fedboard.common.protocols.sums.exact import FactoredSums
from fedboard.common.protocols.sums.row_bounds import asked_rows, rows_within_bounds
from fedboard.common.protocols.trusted.protocol import factored_bytes
from fedboard.common.task import ClientTask
from fedboard.server.runtime import item_blocks
from fedboard.simulations.datasets.id_keys import Kind, id_keys
from fedboard.simulations.streams.giving import ScalesOf, given_by
from fedboard.simulations.streams.merging import (
    Merging,
    SpanRead,
    SpanSums,
    merged_spans,
    require_apart,
    require_everybody,
)
from fedboard.simulations.streams.splitting import Splitting
from fedboard.simulations.streams.stream import UserStream, block_bounds

BLOCK_RATINGS = 1 << 20
"""Of a block, unless somebody says otherwise."""
MOST_BYTES = 2 << 30
"""Of one set of dense sums, unless somebody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SpanWork:
    """What all spans of a round share; picklable. Public, but for the stream and for who takes part."""

    task: ClientTask
    stream: UserStream
    splitting: Splitting
    requests: tuple[Request, ...]
    backend: str
    """Which kernels compute."""
    block_ratings: int = BLOCK_RATINGS
    """At most so many ratings are read at once, or one user's."""
    present: PresentRows | None = None
    """Who takes part; None for everybody. Secret."""
    scales_of: ScalesOf | None = None
    """Personal levels; None where the run's guarantee is everybody's."""


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
    began, trace, n_ratings, n_learnt_from = process_time(), _Trace(), 0, 0
    sums, sizes = zero_sums(work.requests), dict[int, int]()
    for block in blocks_of(work.stream, start, stop, work.block_ratings):
        trace.update(block)
        cohort = work.splitting.train(block, item_keys_of(work.stream))
        n_ratings += cohort.n_ratings
        n_learnt_from += int(np.count_nonzero(cohort.counts))
        _add_block(work, board, cohort, into=sums, sizes=sizes)
    return SpanSums(
        sums=sums,
        spans={start: SpanRead(stop=stop, digest=trace.digest())},
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


def zero_sums(requests: Iterable[Request]) -> dict[str, IntArray]:
    """Sums over nobody, int64, shape (rows, width) each."""
    return {r.name: np.zeros((r.release.rows, r.release.width), dtype=np.int64) for r in requests}


def require_room(requests: Iterable[Request], n_items: int, most_bytes: int = MOST_BYTES) -> None:
    """Refuse requests whose sums a worker cannot hold: each holds all of them, whatever its users rated.

    Args:
        requests: of one round, also as planned before the catalogue was known. Public.
        n_items: of the catalogue. Public.
        most_bytes: > 0. Public.

    Raises:
        InputError: they take more; says what to do.
    """
    needed = room_of(requests, n_items)
    if needed > most_bytes:
        raise InputError(
            f"the sums of one round take {needed / 2**30:.3g} GiB in each worker, and streaming allows "
            f"{most_bytes / 2**30:.3g}: choose a smaller rank, an algorithm that releases no matrix per item, "
            "fewer items, or run without streaming, where matrices are formed item by item"
        )


def room_of(requests: Iterable[Request], n_items: int) -> int:
    """Bytes that the sums of one round take, also as planned before the catalogue was known. Public."""
    return sum(_bytes_of(request, n_items) for request in requests)


def _bytes_of(request: Request, n_items: int) -> int:
    release = request.release
    if request.source is SumSource.ITEM_PAIRS:  # formed from a matrix of all pairs
        return 8 * n_items * n_items
    return 8 * release.width * (n_items if request.source.per_item else release.rows)


def blocks_of(stream: UserStream, start: int, stop: int, most_ratings: int) -> Iterator[Cohort]:
    """All ratings of users ``start:stop``, a block of at most so many at a time, or one user's. Private.

    Raises:
        InputError: they cannot be read, or the stream contradicts itself.
    """
    counts = stream.counts(start, stop)
    for first, last in block_bounds(counts, most_ratings):
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
    first, last = cohort.first_row, cohort.first_row + cohort.n_users
    present = None if work.present is None else work.present.rows(first, last)
    scales = None if work.scales_of is None else work.scales_of(cohort.keys)
    given = given_by(work.task, cohort, board, work.requests, present=present, scales=scales)
    if not bool(np.all(rows_within_bounds(given, work.requests))):
        raise PrivacyError("a contribution breaks its declared bound; nothing was sent")
    sent = factored_bytes(given)
    _count(sent if present is None else sent[present], sizes)
    add_sums(FactoredSums.of(asked_rows(given, work.requests), backend=work.backend), work.requests, into)


def _count(numbers: IntArray, into: dict[int, int]) -> None:
    for number, times in zip(*np.unique(numbers, return_counts=True), strict=True):
        into[int(number)] = into.get(int(number), 0) + int(times)


def add_sums(sums: FactoredSums, requests: Iterable[Request], into: Mapping[str, IntArray]) -> None:
    """Add sums to others in place, formed in blocks of items, so that no second set of them exists."""
    asked = tuple(requests)
    for rows in sorted({request.release.rows for request in asked}):
        together = [request for request in asked if request.release.rows == rows]
        for start, stop in item_blocks(together):
            for name, values in sums.block(together, start, stop).items():
                into[name][start:stop] += values


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


__all__ = [
    "Merging",
    "SpanRead",
    "SpanSums",
    "SpanWork",
    "add_sums",
    "merged_spans",
    "require_apart",
    "require_everybody",
    "require_room",
    "room_of",
    "sums_of_span",
    "zero_sums",
]
