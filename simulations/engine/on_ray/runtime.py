"""A runtime whose clients are spans of users on a Ray cluster: only small sums and boards pass this process."""

import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar, Final

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request, numbers_of
from fedboard.common.errors import InputError
from fedboard.common.per_user.participation import Attendance, require_unsampled
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.protocol import ExactSums
from fedboard.common.task import ItemBlockSolver, ReleasedSums
from fedboard.server.runtime import Gathered, NoisedSums, Traffic
from fedboard.simulations.engine.on_ray.cluster import Cluster, Ref
from fedboard.simulations.engine.on_ray.jobs import (
    SpanDone,
    counted_in,
    rows_in,
    solved_part,
    span_parts,
)
from fedboard.simulations.engine.on_ray.parts import Counted, Lane, lanes_of, require_same
from fedboard.simulations.engine.on_ray.pool import NOBODY, arrays_of, in_order_of_end
from fedboard.simulations.engine.on_ray.tree import MergeTree
from fedboard.simulations.engine.pool import OnProgress
from fedboard.simulations.problem import require_learnable
from fedboard.simulations.streams.merging import require_each_once
from fedboard.simulations.streams.spans import SpanWork, require_room

_TASKS_PER_CORE: Final = 4
_FEWEST_TASKS: Final = 32
_FEWEST_USERS: Final = 2048
_MOST_USERS: Final = 1 << 22
_FEWEST_NUMBERS: Final = 1 << 16
"""A round is cut into so many spans at least, but none of fewer users than that, nor of more: enough for cores that
join, and little to do again for one that is lost. A lane has as many numbers as take longer than to hand them over.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanOfUsers:
    """What one task takes."""

    start: int
    stop: int
    held: Ref | None = None
    """Their rows in the object store; None where workers open the stream."""


class OnRay:
    """All users of a stream as clients of one task, under the trusted protocol, on the workers of a cluster.

    Guarantee: the sums are the engine's to the last bit, over each user once, for any number of workers and
    whichever of them are lost, join or do a span again; otherwise nothing is released.
    Memory: on a worker, that of ``sums_of_span``; in the object stores, the sums (8 bytes a number) of about two
    tasks for each core and of eight for each level of the tree; here, boards.
    """

    def __init__(
        self,
        cluster: Cluster,
        work: SpanWork,
        *,
        spans: Sequence[SpanOfUsers] | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Say who the clients are.

        Args:
            cluster: connected.
            work: of any round; requests, and who takes part, are of each.
            spans: all users, each once; None to cut them anew in each round, for the workers that are there then.
            on_progress: told ("users", users done, users in all) and ("items", blocks done, blocks in all).

        Raises:
            InputError: a round of the task's plan has sums that no worker can hold; nothing was asked yet.
        """
        self._cluster, self._work, self._spans = cluster, work, spans
        self._stream = cluster.put(work.stream)  # once: it may hold what it streams
        self._on_progress = on_progress or _tell_nobody
        self._traces: dict[tuple[int, int], bytes] = {}
        for requests in work.task.plan():
            require_room(requests, work.stream.n_items)

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """The contribution of every user who takes part, checked where it is summed, and summed exactly.

        Raises:
            PrivacyError: the requests state who takes part and there is no attendance that draws it; or the sums
                that came about are not over each user once.
            WorkerDiedError: the cluster lost workers and could not get their spans done again.
            InputError: ratings cannot be read or have changed, or, with seeded noise, there is nothing to learn.
        """
        n_users, n_cpus = self._work.stream.n_users, self._cluster.n_cpus
        present = None
        if attendance is None:
            require_unsampled(requests)
        else:
            present = attendance.rows(n_users)
        spread = min(_TASKS_PER_CORE * n_cpus, -(-numbers_of(requests) // _FEWEST_NUMBERS))
        lanes = lanes_of(requests, at_least=spread)
        work = replace(self._work, requests=tuple(requests), present=present)
        spans = self._spans or spans_of(n_users, n_cpus)
        done, parts = self._summed(work, board, lanes, spans)
        counted = tuple(sorted(one.counted for one in done))
        require_each_once(((one.start, one.stop) for one in counted), n_users)
        for of_lane in self._cluster.get([self._cluster.call(counted_in, part) for part in parts]):
            require_same(of_lane, counted)
        if attendance is not None and not attendance.noise.private:
            users, ratings = sum(one.n_learnt_from for one in done), sum(one.n_ratings for one in done)
            require_learnable(users=users, ratings=ratings)
        sums = ClusterSums(cluster=self._cluster, lanes=lanes, parts=tuple(parts), counted=counted)
        return Gathered(sums=sums, traffic=Traffic.of_counted(_counted(done), len(board.to_bytes())))

    def _summed(
        self, work: SpanWork, board: Board, lanes: Sequence[Lane], spans: Sequence[SpanOfUsers]
    ) -> tuple[list[SpanDone], list[Ref]]:
        """What is told of each span, and the sums over all of them, one for each lane."""
        cluster, tree, done = self._cluster, MergeTree(self._cluster), list[SpanDone]()
        content = cluster.put(np.frombuffer(board.to_bytes(), dtype=np.uint8))
        shared, cut = cluster.put(pickle.dumps(replace(work, stream=NOBODY))), cluster.put(lanes)
        parts, users = dict[Ref, list[Ref]](), 0

        def hand_in(span: SpanOfUsers) -> Ref:
            given = (shared, self._stream, board.digest, content, cut, span.start, span.stop, span.held)
            told, *rest = cluster.call(span_parts, *given, returns=1 + len(lanes))
            parts[told] = rest
            return told

        for _, told in in_order_of_end(cluster, spans, hand_in):
            done.append(cluster.get(told))
            tree.add(parts.pop(told))
            self._require_same(done[-1])
            users += done[-1].counted.stop - done[-1].counted.start
            self._on_progress("users", users, work.stream.n_users)
        return done, tree.finish()

    def _require_same(self, done: SpanDone) -> None:
        """Refuse ratings that are others than they were in an earlier round, or on another node.

        Raises:
            InputError: they are.
        """
        span = (done.counted.start, done.counted.stop)
        if self._traces.setdefault(span, done.read) != done.read:
            raise InputError(
                f"{self._work.stream.name}: ratings have changed since an earlier round of this run, or are others "
                "on another node; nothing of this round was released. Restore them and go on with --resume"
            )

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums; blocks of items are noised and solved where their sums are."""
        if not isinstance(sums, ClusterSums):
            raise InputError("these sums are not on this cluster")
        here = NoisedSums(sums=sums, requests=requests, booked=booked)
        return _OpenOnWorkers(here, sums, self._on_progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSums:
    """Exact sums that lie on a cluster, in lanes. Secret: they leave only through a booked release."""

    cluster: Cluster
    lanes: tuple[Lane, ...]
    parts: tuple[Ref, ...]
    """One for each lane."""
    counted: tuple[Counted, ...]
    """The computations that every lane holds."""
    rejected_rows: ClassVar[int] = 0
    noise_shares: ClassVar[int] = 0
    noise_ratio: ClassVar[float] = 1.0
    residue_bits: ClassVar[Mapping[str, int]] = MappingProxyType({})

    def block(self, requests: Sequence[Request], start: int, stop: int) -> dict[str, IntArray]:
        """Rows ``start:stop`` of these requests' sums, brought here: for releases that are small as a whole."""
        return {request.name: self._rows(request.name, start, stop) for request in requests}

    def _rows(self, name: str, start: int, stop: int) -> IntArray:
        asked = [
            (lane, self.cluster.call(rows_in, part, self.counted, (name,)))
            for lane, part in zip(self.lanes, self.parts, strict=True)
            if name in lane.names and lane.start < stop and start < lane.stop
        ]
        found = [
            self.cluster.get(ref)[name][max(start - lane.start, 0) : stop - lane.start] for lane, ref in asked
        ]
        return np.concatenate(found)


class _OpenOnWorkers:
    """Noised sums whose per-item work is done on the workers."""

    def __init__(self, here: NoisedSums, sums: ClusterSums, on_progress: OnProgress) -> None:
        self._here, self._sums, self._on_progress = here, sums, on_progress

    @property
    def noise_ratio(self) -> float:
        """Deviation of the noise over the booked one."""
        return self._here.noise_ratio

    def array(self, name: str) -> FloatArray:
        """One release as a whole, noised here."""
        return self._here.array(name)

    def map_items(self, names: tuple[str, ...], solver: ItemBlockSolver, *, width: int) -> Float32Array:
        """Each lane is noised and solved by one worker; no two share a row."""
        cluster, sums = self._sums.cluster, self._sums
        requests = [r for r in self._here.requests if r.name in names]
        shared, expected = cluster.put(pickle.dumps(solver)), cluster.put(sums.counted)
        wanted = [
            (lane, part)
            for lane, part in zip(sums.lanes, sums.parts, strict=True)
            if set(names) <= set(lane.names)
        ]
        blocks: dict[int, Float32Array] = {}

        def hand_in(job: tuple[Lane, Ref]) -> Ref:
            lane, part = job
            booked = {r.name: self._here.booked[r.name].part(lane.start, lane.stop) for r in requests}
            return cluster.call(solved_part, part, expected, lane, requests, pickle.dumps(booked), shared)

        for number, ref in in_order_of_end(cluster, wanted, hand_in):
            blocks[number] = cluster.get(ref)
            self._on_progress("items", len(blocks), len(wanted))
        if not wanted:
            return np.empty((0, width), dtype=np.float32)
        return np.concatenate([blocks[number] for number in range(len(wanted))])


def spans_of(n_users: int, n_cpus: int) -> list[SpanOfUsers]:
    """All users, cut into spans of one size for this many cores. What comes out does not depend on the cut."""
    tasks = max(_FEWEST_TASKS, _TASKS_PER_CORE * n_cpus)
    size = min(max(_FEWEST_USERS, -(-n_users // tasks)), _MOST_USERS)
    return [SpanOfUsers(start=start, stop=min(start + size, n_users)) for start in range(0, n_users, size)]


def held_spans(cluster: Cluster, rows: Cohort) -> list[SpanOfUsers]:
    """All users of a problem in memory, laid into the object store once, by span. Private."""
    return [
        replace(span, held=cluster.put(arrays_of(rows.rows(span.start, span.stop))))
        for span in spans_of(rows.n_users, cluster.n_cpus)
    ]


def _counted(done: Sequence[SpanDone]) -> Counter[int]:
    """Bytes that a user who takes part would send, and how many would."""
    return sum((Counter(one.sizes) for one in done), Counter())


def _tell_nobody(phase: str, done: int, total: int) -> None:
    """Nobody wants to know how a round is getting on."""
