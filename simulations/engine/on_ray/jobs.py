"""What Ray's workers run: plain functions of what a round's objects hold.

Arrays that come from Ray's object store by themselves cannot be written, and compiled kernels take them for a
type of its own, which is compiled anew. So what kernels see comes as pickled bytes or is copied.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import Float32Array, IntArray
from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.task import ItemBlockSolver
from fedboard.server.runtime import noised_block
from fedboard.simulations.engine.on_ray.parts import Counted, Lane, Part, merged, parts_of, require_same
from fedboard.simulations.engine.on_ray.pool import HeldUsers, rows_of
from fedboard.simulations.engine.starting import keep_freed_memory
from fedboard.simulations.streams.spans import SpanWork, sums_of_span
from fedboard.simulations.streams.stream import UserStream

BoardBytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanDone:
    """What the driver learns of a span; its sums stay where they are."""

    counted: Counted
    read: bytes
    """Digest of every rating of theirs. Private."""
    sizes: Mapping[int, int]
    """Bytes that a user who takes part would send -> how many such users."""
    n_ratings: int
    """Training ratings that were gone through. Private."""
    n_learnt_from: int
    """Users who have any. Private."""


def span_parts(
    work: bytes,
    stream: UserStream,
    digest: str,
    board: BoardBytes,
    lanes: Sequence[Lane],
    start: int,
    stop: int,
    held: Mapping[str, NDArray[Any]] | None,
) -> tuple[SpanDone | Part, ...]:
    """The exact sums over users ``start:stop``, by lane; first what is told of them.

    Args:
        work: of the round, with any stream, pickled.
        stream: which users there are. Private.
        digest: of the board.
        board: public, as ``Board.to_bytes``.
        lanes: of the round.
        start: first user.
        stop: one past the last.
        held: their rows, where they came through the object store; None where the worker opens the stream. Private.
    """
    keep_freed_memory()
    if held is not None and isinstance(stream, HeldUsers):
        stream = replace(stream, rows=rows_of(held, first_row=start, n_items=stream.n_items))
    asked: SpanWork = replace(pickle.loads(work), stream=stream)
    span = sums_of_span(asked, board_of(digest, board), start, stop)
    parts = parts_of(span.sums, lanes, start, stop)
    done = SpanDone(
        counted=parts[0].counted[0],
        read=span.spans[start].digest,
        sizes=span.sizes,
        n_ratings=span.n_ratings,
        n_learnt_from=span.n_learnt_from,
    )
    return (done, *parts)


def merged_part(*parts: Part) -> Part:
    """The sum of some parts of one lane."""
    return merged(parts)


def counted_in(part: Part) -> tuple[Counted, ...]:
    """Whose sums a part is."""
    return part.counted


def rows_in(part: Part, expected: tuple[Counted, ...], names: Sequence[str]) -> dict[str, IntArray]:
    """Some releases' rows of a part, to be noised elsewhere."""
    require_same(part.counted, expected)
    return {name: part.sums[name] for name in names}


def solved_part(
    part: Part,
    expected: tuple[Counted, ...],
    lane: Lane,
    requests: Sequence[Request],
    booked: bytes,
    solver: bytes,
) -> Float32Array:
    """Exact sums of a block of items, noised and solved, by the engine's own function.

    ``booked`` is a pickled mapping of the lane's parts of what is paid for, which crosses off the rows that it
    publishes, and ``solver`` a pickled ``ItemBlockSolver``.

    The last point before anything is released: what is noised are the sums that were counted before it was paid
    for.
    """
    require_same(part.counted, expected)
    paid: Mapping[str, BookedRelease] = pickle.loads(booked)
    solve: ItemBlockSolver = pickle.loads(solver)
    sums = {request.name: np.array(part.sums[request.name]) for request in requests}
    return noised_block(_LaneSums(sums, lane), requests, paid, solve, lane.start, lane.stop)


@dataclass(frozen=True, slots=True)
class _LaneSums:
    """A part as ``ExactSums``, for the rows of its lane."""

    sums: Mapping[str, IntArray]
    lane: Lane
    rejected_rows: ClassVar[int] = 0
    noise_shares: ClassVar[int] = 0
    noise_ratio: ClassVar[float] = 1.0
    residue_bits: ClassVar[Mapping[str, int]] = MappingProxyType({})

    def block(self, requests: Sequence[Request], start: int, stop: int) -> dict[str, IntArray]:
        """Rows ``start:stop``, counted as those of the whole release."""
        rows = slice(start - self.lane.start, stop - self.lane.start)
        return {request.name: self.sums[request.name][rows] for request in requests}


_BOARDS: dict[str, Board] = {}
"""The last one that this process has parsed, by digest: a worker takes many spans of one round."""


def board_of(digest: str, content: BoardBytes) -> Board:
    """The board with this digest, parsed once in a process."""
    if digest not in _BOARDS:
        _BOARDS.clear()
        _BOARDS[digest] = Board.from_bytes(content)
    return _BOARDS[digest]
