"""The workers of a cluster, called as those of the engine are: functions without arguments, results in order."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from fedboard.simulations.engine.pool import Job, WorkerPool
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
