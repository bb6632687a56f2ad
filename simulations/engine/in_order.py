"""Results of many jobs one after the other, so that what merges them never holds all of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

_JOBS_PER_WORKER = 4
"""In one wave: the fewer, the more often workers wait for the slowest; the more, the more results wait."""


class JobRunner(Protocol):
    """``WorkerPool``, or whoever else runs jobs."""

    n_workers: int

    def run(self, jobs: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run all of them; results in the order of the jobs."""


def in_order(runner: JobRunner, jobs: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """The results of jobs in their order, a few jobs ahead of whoever takes them.

    Args:
        runner: who runs them; with one worker each job is done when its result is taken.
        jobs: picklable, independent of each other; made as they are needed.
    """
    at_once = 1 if runner.n_workers == 1 else _JOBS_PER_WORKER * runner.n_workers
    remaining = iter(jobs)
    while wave := list(islice(remaining, at_once)):
        yield from runner.run(wave)
