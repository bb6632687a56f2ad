"""A runtime for ratings that do not fit into memory: workers take spans of users, then blocks of items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version

from fedboard.common.board import Board
from fedboard.common.checks import require_whole
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.per_user.participation import Attendance, require_unsampled
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.task import ClientTask, ReleasedSums
from fedboard.server.runtime import Gathered, NoisedSums, Traffic
from fedboard.simulations.engine.jobs import loaded_board
from fedboard.simulations.engine.pool import OnPool, OnProgress, WorkerPool
from fedboard.simulations.engine.runtime import SpreadSums
from fedboard.simulations.engine.shared_stream import within_reach
from fedboard.simulations.problem import require_learnable
from fedboard.simulations.streams.giving import ScalesOf
from fedboard.simulations.streams.merging import Merging, SpanRead, SpanSums, require_everybody
from fedboard.simulations.streams.partial_sums import PartialSums, RoundKey, digest_of, requests_digest
from fedboard.simulations.streams.spans import (
    BLOCK_RATINGS,
    MOST_BYTES,
    SpanWork,
    require_room,
    room_of,
    sums_of_span,
)
from fedboard.simulations.streams.splitting import Splitting
from fedboard.simulations.streams.stream import UserStream

_FEWEST, _MOST_USERS = 2048, 1 << 18
_SPANS = 32
_LARGE, _LARGER_SPANS = 8 << 20, 4
"""Sums of more bytes than that take long to hand over: spans are so many times as large."""
CHECKPOINT_USERS = 1 << 22
"""After so many users what is summed so far is kept, unless somebody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLayout:
    """How a stream is gone through. Public; it never changes what is computed."""

    block_ratings: int = BLOCK_RATINGS
    """At most so many ratings are read at once in each worker, or one user's."""
    span_users: int | None = None
    """Users of a job; by default a 32nd of all, from 2,048 to 262,144, or four times that where sums are large."""
    most_bytes: int = MOST_BYTES
    """Of one set of dense sums; more are refused."""
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
        """Of a stream of so many users and a task with such sums; nothing else decides, so that a round can be gone
        on with anywhere.
        """
        if self.span_users is not None:
            return self.span_users
        users = min(max(-(-n_users // _SPANS), _FEWEST), _MOST_USERS)
        return users if sum_bytes <= _LARGE else _LARGER_SPANS * users


class StreamedEngine(OnPool):
    """All users of a stream as clients of one task, under the trusted protocol: a ``Runtime``.

    Guarantee: the same sums, to the last bit, as ``Engine`` over the same users' training ratings, for any layout,
    any number of workers, and however often a round was interrupted.

    Memory: nothing grows with users. In each worker one block (about 100 bytes for each of ``block_ratings``
    ratings, or of one user's), 8 bytes for each user of its span, and one set of dense sums: 8 bytes a number,
    ``rank`` of them per item, or about ``rank^2 / 2`` where an algorithm asks for a matrix per item. In this
    process two such sets: the total, and the part that is being added. A set of more than ``most_bytes`` is
    refused before anything is read.
    """

    def __init__(
        self,
        task: ClientTask,
        stream: UserStream,
        splitting: Splitting,
        *,
        pool: WorkerPool,
        backend: str,
        layout: StreamLayout | None = None,
        on_progress: OnProgress | None = None,
        scales_of: ScalesOf | None = None,
        partial_sums: PartialSums | None = None,
    ) -> None:
        """Hold what is asked; nothing is read yet.

        Args:
            task: what is learnt.
            stream: all users. Private.
            splitting: what of their ratings is learnt from.
            pool: where jobs run.
            backend: which kernels compute.
            layout: how the stream is gone through.
            on_progress: told ("users", users done, users in all) and ("items", blocks done, blocks in all).
            scales_of: personal levels by users' keys; None where the run's guarantee is everybody's.
            partial_sums: where the sums of a round that is not over are kept; None: nowhere. With secret coins and
                noise they are kept nowhere, whatever is said here.

        Raises:
            InputError: a round of the task's plan has sums that do not fit; nothing was asked yet.
        """
        self._layout = layout or StreamLayout()
        for requests in task.plan():
            require_room(requests, stream.n_items, self._layout.most_bytes)
        largest = max((room_of(requests, stream.n_items) for requests in task.plan()), default=0)
        self._span_users = self._layout.users_of_span(stream.n_users, largest)
        super().__init__(pool, on_progress)
        self._task, self._splitting, self._backend = task, splitting, backend
        self._scales_of, self._partial_sums = scales_of, partial_sums
        self._stream, self._identity = within_reach(stream, self._shared, pool), stream.identity
        self._traces: dict[tuple[int, int], bytes] = {}

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """The contribution of every user who takes part, checked before it is added, and summed exactly.

        Raises:
            PrivacyError: the requests state who takes part and there is no attendance that draws it, or the sums
                are not over each user once.
            InputError: the sums do not fit, ratings cannot be read or have changed, partial sums are damaged, or,
                with seeded noise, there is nothing to learn.
        """
        asked = tuple(requests)
        require_room(asked, self._stream.n_items, self._layout.most_bytes)
        work = SpanWork(
            task=self._task,
            stream=self._stream,
            splitting=self._splitting,
            requests=asked,
            backend=self._backend,
            block_ratings=self._layout.block_ratings,
            scales_of=self._scales_of,
        )
        if attendance is None:
            require_unsampled(asked)
        else:
            work = replace(work, present=attendance.rows(self._stream.n_users))
        path = self._publish(board)
        found = self._summed(work, str(path), _Kept.of(self, board, asked, attendance))
        require_everybody(found, self._stream.n_users)
        if attendance is not None and not attendance.noise.private:
            require_learnable(users=found.n_learnt_from, ratings=found.n_ratings)
        traffic = Traffic.of_counted(found.sizes, path.stat().st_size)
        return Gathered(sums=DenseSums(sums=found.sums), traffic=traffic)

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
            split=digest_of(self._splitting),
            levels=digest_of(self._scales_of),
            coins=digest_of(coins),
            kernels=self._backend,
            software=version("fedboard"),
        )

    def _summed(self, work: SpanWork, board_path: str, kept: "_Kept | None") -> SpanSums:
        n_users, merging = work.stream.n_users, Merging()
        before = None if kept is None else kept.load(work.requests)
        if before is not None:
            self._require_same(before.spans)
            merging.add(before)
        spans = spans_left(merging.spans, n_users, self._span_users)
        done = n_users - sum(stop - start for start, stop in spans)
        saved = done
        self._told(done, n_users)
        jobs = [partial(_span, work, board_path, *span) for span in spans]
        for _, part in self._pool.answers(jobs):
            self._require_same(part.spans)
            merging.add(part)
            done += part.n_users
            self._told(done, n_users)
            if kept is not None and done < n_users and done - saved >= self._layout.checkpoint_users:
                kept.save(merging.sums())
                saved = done
        return merging.sums()

    def _require_same(self, spans: Mapping[int, SpanRead]) -> None:
        """Refuse ratings that are others than they were in an earlier round.

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


@dataclass(frozen=True, slots=True)
class _Kept:
    """Where the sums of this round are kept, and under what."""

    partial_sums: PartialSums
    key: RoundKey

    @staticmethod
    def of(
        engine: StreamedEngine, board: Board, requests: Sequence[Request], attendance: Attendance | None
    ) -> "_Kept | None":
        """None where nothing is kept: what secret noise protects is never written without it."""
        partial_sums = engine._partial_sums
        if partial_sums is None or attendance is None or attendance.noise.private:
            return None
        return _Kept(partial_sums, engine.round_key(board, requests, attendance))

    def load(self, requests: Sequence[Request]) -> SpanSums | None:
        shapes = {r.name: (r.release.rows, r.release.width) for r in requests}
        return self.partial_sums.load(self.key, shapes)

    def save(self, sums: SpanSums) -> None:
        self.partial_sums.save(self.key, sums)


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


def _span(work: SpanWork, board_path: str, start: int, stop: int) -> SpanSums:
    return sums_of_span(work, loaded_board(board_path), start, stop)
