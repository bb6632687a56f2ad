"""Passes over a stream: blocks are read ahead while threads work on those before them."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

import numpy as np

from fedboard.common.arrays import IntArray
from research.block_solvers.blocks import Stream
from research.block_solvers.rating_sweep import RatingBlock

READ_AHEAD = 2
"""Blocks that are read, or waiting, while others are worked on."""

Work = Callable[[RatingBlock, int, int], None]
"""(block, clock of its first rating, number of the thread)."""


def run_pass(stream: Stream, work: Work, *, order: IntArray, clock: int, threads: int) -> None:
    """Call ``work`` on every block once; at most ``threads + READ_AHEAD`` blocks are in memory.

    Args:
        stream: the ratings.
        work: releases the interpreter lock. Blocks have disjoint users.
        order: int64, shape (n_blocks,): a permutation of the blocks.
        clock: of the first rating; the clock ticks once a rating.
        threads: >= 1; with 1 blocks are worked on in their order, on the calling thread.
    """
    sizes = stream.block_sizes[order]
    clocks = clock + np.concatenate([[0], np.cumsum(sizes)[:-1]]) if sizes.size else sizes
    with ThreadPoolExecutor(max_workers=1) as reader:
        feed = _Feed(stream, zip(order.tolist(), clocks.tolist(), strict=True), reader)
        if threads == 1:
            _work_off(feed, work, 0)
            return
        with ThreadPoolExecutor(max_workers=threads) as pool:
            # list() so that an exception in a thread surfaces here.
            list(pool.map(lambda thread: _work_off(feed, work, thread), range(threads)))


class _Feed:
    """Hands out blocks in order, to whoever asks next."""

    def __init__(self, stream: Stream, jobs: Iterable[tuple[int, int]], reader: ThreadPoolExecutor) -> None:
        self._stream, self._jobs, self._reader = stream, iter(jobs), reader
        self._waiting: deque[tuple[Future[RatingBlock], int]] = deque()
        self._lock = Lock()
        for _ in range(READ_AHEAD):
            self._ask()

    def next(self) -> tuple[RatingBlock, int] | None:
        """The next block and its clock; None when all are given out."""
        with self._lock:
            if not self._waiting:
                return None
            found, clock = self._waiting.popleft()
            block = found.result()
            self._ask()
            return block, clock

    def _ask(self) -> None:
        job = next(self._jobs, None)
        if job is not None:
            number, clock = job
            self._waiting.append((self._reader.submit(self._stream.read, number), clock))


def _work_off(feed: _Feed, work: Work, thread: int) -> None:
    while (job := feed.next()) is not None:
        work(*job, thread)
