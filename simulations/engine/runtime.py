"""The runtime of a simulation: all users as clients of one task, in blocks, wherever their ratings are.

Workers take spans of users, then blocks of items. Ratings are in memory, in shards or made up as they are read;
workers are processes of this machine, or those of a Ray cluster (``fedboard.simulations.ray``).
"""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from fedboard.common.board import Board
from fedboard.common.checks import require_whole
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.contribution_bounding.participation import Attendance, require_unsampled
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ClientTask, ReleasedSums
from fedboard.server.runtime import Gathered, NoisedSums, Traffic
from fedboard.simulations.data.splits import Splitting
from fedboard.simulations.data.stream import HeldStream, UserStream, write_rows
from fedboard.simulations.engine.merging import Merging, SpanRead, SpanSums, require_everybody
from fedboard.simulations.engine.partial_sums import PartialSums, RoundKey, digest_of, requests_digest
from fedboard.simulations.engine.pool import Job, OnProgress, WorkerPool
from fedboard.simulations.engine.spans import (
    BLOCK_RATINGS,
    MOST_BYTES,
    ScalesOf,
    SpanWork,
    room_of,
    sums_of_span,
)
from fedboard.simulations.engine.spread import SpreadSums, SumsByParts
from fedboard.simulations.problem import require_learnable

_FEWEST, _MOST_USERS = 2048, 1 << 18
_SPANS = 32
_LARGE, _LARGER_SPANS = 8 << 20, 4
"""Sums of more bytes than that take long to hand over: spans are so many times as large."""
CHECKPOINT_USERS = 1 << 22
"""After so many users what is summed so far is kept, unless somebody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLayout:
    """How users are gone through. Public; it never changes what is computed."""

    block_ratings: int = BLOCK_RATINGS
    """At most so many ratings are read at once in each worker, or one user's."""
    span_users: int | None = None
    """Users of a job; by default a 32nd of all, from 2,048 to 262,144, or four times that where sums are large."""
    most_bytes: int = MOST_BYTES
    """Of one set of dense sums; where a round has more, users are gone through once for each part of the items."""
    checkpoint_users: int = CHECKPOINT_USERS
    """After so many users the sums so far are kept, where they may be."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InputError: one is below 1.
        """
        require_whole("ratings in a block (run.block_ratings)", self.block_ratings)
        require_whole("bytes of the sums", self.most_bytes)
        require_whole("users between checkpoints (run.checkpoint_users)", self.checkpoint_users)
        if self.span_users is not None:
            require_whole("users of a span", self.span_users)

    def users_of_span(self, n_users: int, sum_bytes: int) -> int:
        """Of so many users and a task with such sums; nothing else decides, so that a round can be gone on with
        anywhere.
        """
        if self.span_users is not None:
            return self.span_users
        users = min(max(-(-n_users // _SPANS), _FEWEST), _MOST_USERS)
        return users if sum_bytes <= _LARGE else _LARGER_SPANS * users


class Engine:
    """All users as clients of one task, under the trusted protocol: a ``Runtime``.

    Guarantee: the same sums, to the last bit, wherever the ratings are, for any layout, any number of workers, and
    however often a round was interrupted.

    Memory: nothing grows with users, but for ratings that are held anyway. In each worker one block (about 100
    bytes for each of ``block_ratings`` ratings, or of one user's), 8 bytes for each user of its span, and one set
    of dense sums: 8 bytes a number, ``rank`` of them per item, or about ``rank^2 / 2`` where an algorithm asks for
    a matrix per item. In this process two such sets: the total, and the part that is being added. Where a set would
    take more than ``most_bytes``, sums are formed for a part of the items at a time.
    """

    def __init__(
        self,
        task: ClientTask,
        users: Cohort | UserStream,
        splitting: Splitting | None = None,
        *,
        protocol: Trusted,
        pool: WorkerPool,
        layout: StreamLayout | None = None,
        on_progress: OnProgress | None = None,
        scales_of: ScalesOf | None = None,
        partial_sums: PartialSums | None = None,
    ) -> None:
        """Lay rows that are in memory where the workers see them; a stream is not read yet.

        Args:
            task: what is learnt.
            users: rows of all of which is learnt, or a stream of all users' ratings. Private.
            splitting: what of a stream's ratings is learnt from; None: all.
            protocol: checks contributions, which are summed as rows whatever its form; its kernels compute.
            pool: where jobs run.
            layout: how users are gone through.
            on_progress: told ("users", users done, users in all) and ("items", blocks done, blocks in all).
            scales_of: personal levels by users' keys, see ``contribution_bounding.personal``; None where the run's
                guarantee is everybody's.
            partial_sums: where the sums of a round that is not over are kept; None: nowhere. With secret coins and
                noise they are kept nowhere, whatever is said here.
        """
        self._pool, self._on_progress = pool, on_progress
        stream = HeldStream.of(users) if isinstance(users, Cohort) else users
        in_memory = stream.rows if pool.shares_memory and isinstance(stream, HeldStream) else None
        self._scratch, self._held = tempfile.TemporaryDirectory(prefix="fedboard-"), ExitStack()
        self._layout, self._identity = layout or StreamLayout(), stream.identity
        largest = max((room_of(requests, stream.n_items) for requests in task.plan()), default=0)
        self._span_users = self._layout.users_of_span(stream.n_users, min(largest, self._layout.most_bytes))
        self._stream: UserStream = stream
        if in_memory is not None and isinstance(stream, HeldStream):
            rows = Path(self._scratch.name) / "rows"
            write_rows(rows, in_memory, while_open=self._held)
            self._stream = replace(stream, held=rows)
        self._work = SpanWork(
            task=task,
            stream=self._stream,
            splitting=splitting,
            requests=(),
            backend=protocol.backend,
            protocol=protocol,
            block_ratings=self._layout.block_ratings,
            scales_of=scales_of,
        )
        self._partial_sums = partial_sums
        self._traces: dict[tuple[int, int], bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free what is held; the pool stays with its owner."""
        self._held.close()
        self._scratch.cleanup()

    def _publish(self, board: Board) -> Path:
        """The file from which workers read this board."""
        path = Path(self._scratch.name) / f"board-{board.version}-{board.digest[:16]}"
        if not path.exists():
            board.save(path)
        return path

    def _run(self, phase: str, work: Sequence[Job]) -> list[Any]:
        report = self._on_progress
        on_done = None if report is None else (lambda done: report(phase, done, len(work)))
        return self._pool.run(work, on_done)

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """The contribution of every user who takes part, checked before it is added, and summed exactly.

        Raises:
            PrivacyError: the requests state who takes part and there is no attendance that draws it, or the sums
                are not over each user once.
            InputError: ratings cannot be read or have changed, partial sums are damaged, or, with seeded noise,
                there is nothing to learn of a stream.
        """
        asked = tuple(requests)
        work = replace(self._work, requests=asked)
        if attendance is None:
            require_unsampled(asked)
        else:
            work = replace(work, present=attendance.rows(self._stream.n_users))
        at_once = asked
        if room_of(asked, self._stream.n_items) > self._layout.most_bytes:
            at_once = tuple(r for r in asked if not r.source.per_item)
        found = self._summed(replace(work, summed=at_once), board, self._kept(board, asked, attendance))
        streamed = self._work.splitting is not None
        if attendance is not None and not attendance.noise.private and streamed:
            require_learnable(users=found.n_learnt_from, ratings=found.n_ratings)
        sums: ExactSums = DenseSums(sums=found.sums)
        if at_once != asked:
            sums = SumsByParts(partial(self._summed, board=board), work, found.sums, self._layout.most_bytes)
        return Gathered(sums=sums, traffic=Traffic.of_counted(found.sizes, len(board.to_bytes())))

    def round_of(self, board: Board, requests: Sequence[Request]) -> "RoundOfRows":
        """Everybody's rows, computed by whoever looks at them.

        Raises:
            PrivacyError: the requests state that not everybody takes part.
        """
        require_unsampled(requests)
        work = replace(self._work, requests=tuple(requests))
        return RoundOfRows(work=work, board_path=str(self._publish(board)))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums; per-item work is spread over the workers."""
        here = NoisedSums(sums=sums, requests=requests, booked=booked)
        return SpreadSums(here, self._run, 4 * self._pool.n_workers)

    def round_key(self, board: Board, requests: Sequence[Request], attendance: Attendance | None) -> RoundKey:
        """What decides about a round's sums."""
        coins = None if attendance is None else sorted(attendance.noise.describe().items())
        return RoundKey(
            board=board.digest,
            requests=requests_digest(requests),
            data=self._identity,
            split=digest_of(self._work.splitting),
            levels=digest_of(self._work.scales_of),
            coins=digest_of(coins),
            kernels=self._work.backend,
            software=version("fedboard"),
        )

    def _kept(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None
    ) -> "tuple[PartialSums, RoundKey] | None":
        """Where the sums of this round are kept, and under what; None where nothing is kept: what secret noise
        protects is never written without it.
        """
        if self._partial_sums is None or attendance is None or attendance.noise.private:
            return None
        return self._partial_sums, self.round_key(board, requests, attendance)

    def _summed(
        self, work: SpanWork, board: Board, kept: "tuple[PartialSums, RoundKey] | None" = None
    ) -> SpanSums:
        """The sums over all users, each counted once.

        Raises:
            PrivacyError: somebody is missing, or counted twice.
        """
        n_users, merging = self._stream.n_users, Merging()
        if kept is not None:
            before = kept[0].load(kept[1], {name: sums.shape for name, sums in work.zeros().items()})
            if before is not None:
                self._require_same(before.spans)
                merging.add(before)
        spans = spans_left(merging.spans, n_users, self._span_users)
        saved = done = n_users - sum(stop - start for start, stop in spans)
        self._told(done, n_users)
        for part in self._parts(work, board, spans):
            self._require_same(part.spans)
            merging.add(part)
            done += part.n_users
            self._told(done, n_users)
            if kept is not None and done < n_users and done - saved >= self._layout.checkpoint_users:
                kept[0].save(kept[1], merging.sums())
                saved = done
        found = merging.sums()
        require_everybody(found, n_users)
        return found

    def _parts(self, work: SpanWork, board: Board, spans: Sequence[tuple[int, int]]) -> Any:
        """The sums over these spans, as they come."""
        path = str(self._publish(board))
        for _, part in self._pool.answers([partial(_span, work, path, *span) for span in spans]):
            yield part

    def _require_same(self, spans: Mapping[int, SpanRead]) -> None:
        """Refuse ratings that are others than they were in an earlier round, or are elsewhere.

        Raises:
            InputError: they are.
        """
        for first, read in spans.items():
            if self._traces.setdefault((first, read.stop), read.digest) != read.digest:
                raise InputError(
                    f"{self._stream.name}: ratings have changed since an earlier round of this run; nothing of "
                    "this round was released. Restore them and go on with --resume, or start a new run"
                )

    def _told(self, done: int, of: int) -> None:
        if self._on_progress is not None:
            self._on_progress("users", done, of)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOfRows:
    """The rows of one round, picklable: each worker computes those that it looks at. Private."""

    work: SpanWork
    board_path: str

    @property
    def board_bytes(self) -> int:
        """What each client got."""
        return Path(self.board_path).stat().st_size

    def contribution(self, start: int, stop: int) -> Contribution:
        """What users ``start:stop`` give, each row checked against every bound."""
        return self.work.given(loaded_board(self.board_path), start, stop)


def spans_left(done: Mapping[int, SpanRead], n_users: int, span_users: int) -> list[tuple[int, int]]:
    """Spans of all users who are in none that is done; each begins and ends at a multiple of ``span_users``, at
    what is done, or at the ends.
    """
    left, reached = [], 0
    for first, stop in [*sorted((first, read.stop) for first, read in done.items()), (n_users, n_users)]:
        while reached < first:
            behind = min(first, (reached // span_users + 1) * span_users)
            left.append((reached, behind))
            reached = behind
        reached = stop
    return left


@lru_cache(maxsize=2)
def loaded_board(path: str) -> Board:
    """A board of this run, read once in each process."""
    return Board.load(Path(path))


def _span(work: SpanWork, board_path: str, start: int, stop: int) -> SpanSums:
    return sums_of_span(work, loaded_board(board_path), start, stop)
