"""The engine on a Ray cluster: spans of users are summed and merged there, and one set of sums comes back.

The workers of a cluster are called as those of the engine are: functions without arguments, results in order.
"""

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from fedboard.common.board import Board
from fedboard.common.errors import PrivacyError
from fedboard.simulations.data.stream import UserStream
from fedboard.simulations.engine.merging import (
    Merging,
    SpanSums,
    merged_spans,
    require_everybody,
)
from fedboard.simulations.engine.partial_sums import PartialSums, RoundKey
from fedboard.simulations.engine.pool import Job, WorkerPool
from fedboard.simulations.engine.runtime import Engine
from fedboard.simulations.engine.spans import SpanWork, sums_of_span
from fedboard.simulations.engine.starting import keep_freed_memory
from fedboard.simulations.ray.cluster import Cluster, Ref

_AHEAD = 2
"""Tasks that are handed in for each core: none waits for this process, and an autoscaler sees that more could be
used."""


class RayPool(WorkerPool):
    """A pool whose workers are a cluster's: those that join are used, what was lost with one is done again."""

    def __init__(self, cluster: Cluster) -> None:
        """Use this one, which stays with its owner; ``n_workers`` is how many cores it has now."""
        super().__init__(1)
        self.cluster = cluster
        self.n_workers = cluster.n_cpus

    @property
    def shares_memory(self) -> bool:
        """A cluster has object stores of its own."""
        return False

    def answers(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """Run all jobs and give each one's result as it comes, with its number.

        Args:
            jobs: picklable callables, independent of each other, that look at no memory of this machine.

        Raises:
            WorkerDiedError: Ray lost workers and could not get their jobs done again.
        """
        for number, ref in in_order_of_end(self.cluster, jobs, self._hand_in):
            yield number, pickle.loads(self.cluster.get(ref))

    def _hand_in(self, job: Job) -> Ref:
        from ray import cloudpickle

        return self.cluster.call(call, cloudpickle.dumps(job))  # type: ignore[no-untyped-call]


def call(job: bytes) -> bytes:
    """Run a pickled job, in a worker; its result, pickled.

    As bytes, because arrays of Ray's store cannot be written: jobs, and those who merge what they give, may do so,
    as with the engine's processes.
    """
    return pickle.dumps(pickle.loads(job)(), protocol=pickle.HIGHEST_PROTOCOL)


def in_order_of_end(
    cluster: Cluster, jobs: Sequence[Any], hand_in: Callable[[Any], Ref]
) -> Iterator[tuple[int, Ref]]:
    """Hand in a few jobs for each core that is there, and more as they are done.

    Yields:
        The number of a job that is done, and what ``hand_in`` gave for it.
    """
    left, running = iter(enumerate(jobs)), dict[Ref, int]()
    while True:
        for number, job in islice(left, max(0, _AHEAD * cluster.n_cpus - len(running))):
            running[hand_in(job)] = number
        if not running:
            return
        for ref in cluster.done(list(running)):
            yield running.pop(ref), ref


BoardBytes = NDArray[np.uint8]
FAN_IN = 8
"""Sums that one task merges."""
_TASKS_PER_CORE: Final = 4
_FEWEST_TASKS: Final = 32
_FEWEST_USERS: Final = 2048
_MOST_USERS: Final = 1 << 22
"""A round is cut into so many spans at least, but none of fewer users than that, nor of more: enough for cores that
join, and little to do again for one that is lost."""


class OnRay(Engine):
    """All users of a stream as clients of one task, under the trusted protocol, on the workers of a cluster.

    Guarantee: the sums are the engine's to the last bit, over each user once, for any number of workers and
    whichever of them are lost, join or do a span again; otherwise nothing is released.
    Memory: on a worker, that of ``sums_of_span``; in the object stores, the sums (8 bytes a number) of about two
    tasks for each core and of eight for each level of the tree; here, one set of them. Ratings that are in memory
    here are in the object store of each node once.
    """

    _pool: RayPool
    _placed: Ref | None = None

    def _summed(
        self, work: SpanWork, board: Board, kept: "tuple[PartialSums, RoundKey] | None" = None
    ) -> SpanSums:
        """The sums over all users, each counted once, merged by the workers in a tree.

        Raises:
            PrivacyError: somebody is missing, or counted twice.
            WorkerDiedError: the cluster lost workers and could not get their spans done again.
            InputError: ratings cannot be read, have changed, or are others on another node.
        """
        cluster, told = self._pool.cluster, Merging()
        if self._placed is None:
            self._placed = cluster.put(self._stream)  # once: it may hold what it streams
        content = cluster.put(np.frombuffer(board.to_bytes(), dtype=np.uint8))
        shared = cluster.put(pickle.dumps(replace(work, stream=cast(UserStream, None))))
        tree, sums_of, n_users = MergeTree(cluster), dict[Ref, Ref](), self._stream.n_users

        def hand_in(span: tuple[int, int]) -> Ref:
            given = (shared, self._placed, board.digest, content, *span)
            about, sums = cluster.call(span_on_worker, *given, returns=2)
            sums_of[about] = sums
            return about

        for _, about in in_order_of_end(cluster, spans_of(n_users, cluster.n_cpus), hand_in):
            done: SpanSums = cluster.get(about)
            tree.add(sums_of.pop(about))
            self._require_same(done.spans)
            told.add(done)
            self._told(told.sums().n_users, n_users)
        found = merged_spans([cluster.get(tree.finish())])  # in arrays of our own
        if dict(found.spans) != dict(told.spans):
            raise PrivacyError(
                "the sums of a round are over others than the workers said; nothing was released. Go on with "
                "--resume"
            )
        require_everybody(found, n_users)
        return found


class MergeTree:
    """The sums of one round. What is merged depends on who is done first, the sum does not."""

    def __init__(self, cluster: Cluster) -> None:
        """Start with nothing."""
        self._cluster = cluster
        self._waiting: dict[int, list[Ref]] = defaultdict(list)
        """By level: the sums of each subtree that is done."""

    def add(self, sums: Ref) -> None:
        """Take those of one span."""
        level = 0
        while True:
            waiting = self._waiting[level]
            waiting.append(sums)
            if len(waiting) < FAN_IN:
                return
            sums = self._cluster.call(merged_on_worker, *waiting)
            waiting.clear()
            level += 1

    def finish(self) -> Ref:
        """The sums over all that was added; nothing can be added any more."""
        left = [sums for level in sorted(self._waiting) for sums in self._waiting[level]]
        while len(left) > 1:
            several = [left[first : first + FAN_IN] for first in range(0, len(left), FAN_IN)]
            left = [self._cluster.call(merged_on_worker, *some) for some in several]
        return left[0]


def spans_of(n_users: int, n_cpus: int) -> list[tuple[int, int]]:
    """All users, cut into spans of one size for this many cores. What comes out does not depend on the cut."""
    tasks = max(_FEWEST_TASKS, _TASKS_PER_CORE * n_cpus)
    size = min(max(_FEWEST_USERS, -(-n_users // tasks)), _MOST_USERS)
    return [(start, min(start + size, n_users)) for start in range(0, n_users, size)]


def span_on_worker(
    work: bytes, stream: UserStream, digest: str, board: BoardBytes, start: int, stop: int
) -> tuple[SpanSums, SpanSums]:
    """The exact sums over users ``start:stop``; first what is told of them, without the sums.

    Args:
        work: of the round, without its stream, pickled.
        stream: which users there are. Private.
        digest: of the board.
        board: public, as ``Board.to_bytes``.
        start: first user.
        stop: one past the last.
    """
    keep_freed_memory()
    asked: SpanWork = replace(pickle.loads(work), stream=stream)
    found = sums_of_span(asked, _board_of(digest, board), start, stop)
    return replace(found, sums={}), found


def merged_on_worker(*parts: SpanSums) -> SpanSums:
    """The sums over the users of all of these."""
    return merged_spans(parts)


_BOARDS: dict[str, Board] = {}
"""The last one that this process has parsed, by digest: a worker takes many spans of one round."""


def _board_of(digest: str, content: BoardBytes) -> Board:
    if digest not in _BOARDS:
        _BOARDS.clear()
        _BOARDS[digest] = Board.from_bytes(content)
    return _BOARDS[digest]
