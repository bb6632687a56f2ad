"""The workers of a cluster, called as those of the engine are: functions without arguments, results in order.

Ratings that one process has in memory, as blocks in a cluster's object store: a span is read from its block.
"""

import math
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BitArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.engine.on_ray.cluster import Cluster, Ref
from fedboard.simulations.engine.pool import Job, WorkerPool

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


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HeldUsers:
    """The training rows of some users, as a stream of which nothing else can be read. Private."""

    rows: Cohort
    """With their keys; ``first_row`` is the first one's number."""
    n_users: int
    """Of the whole population."""
    identity: str
    rating_range: tuple[float, float]
    name: str = "held ratings"
    presence: bool = False
    items_listed: bool = False
    titles: tuple[str, ...] | None = None

    @property
    def item_ids(self) -> NDArray[np.str_]:
        """Numbers: nothing is held out of what is held, so that ids decide nothing."""
        return np.array([str(item) for item in range(self.n_items)])

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.rows.n_items

    def counts(self, start: int, stop: int) -> IntArray:
        """Ratings of each of these users."""
        return self.read(start, stop).counts

    def read(self, start: int, stop: int) -> Cohort:
        """These users' rows, without copying."""
        first = self.rows.first_row
        return self.rows.rows(start - first, stop - first)


NOBODY: Final = HeldUsers(
    rows=Cohort(
        indptr=np.zeros(1, dtype=np.int64),
        items=np.empty(0, dtype=np.int32),
        ratings=np.empty(0, dtype=np.float32),
        n_items=0,
    ),
    n_users=0,
    identity="nobody",
    rating_range=(-math.inf, math.inf),
)
"""Stands for a stream that is sent by itself."""


@dataclass(frozen=True, slots=True)
class Everything:
    """The splitting of rows of which all is learnt from."""

    def train(self, block: Cohort, item_keys: BitArray) -> Cohort:
        """The block."""
        return block


def held_by(rows: Cohort) -> HeldUsers:
    """All users of a problem, as a stream that each span gives its own rows."""
    return HeldUsers(
        rows=rows.rows(0, 0), n_users=rows.n_users, identity="held", rating_range=(-math.inf, math.inf)
    )


def arrays_of(rows: Cohort) -> dict[str, NDArray[np.generic]]:
    """What an object store holds of a block."""
    return {
        "indptr": rows.indptr - rows.indptr[0],
        "items": np.ascontiguousarray(rows.items),
        "ratings": np.ascontiguousarray(rows.ratings),
        "user_keys": np.ascontiguousarray(rows.keys),
    }


def rows_of(arrays: Mapping[str, NDArray[np.generic]], *, first_row: int, n_items: int) -> Cohort:
    """The block again, in arrays of the worker's own."""
    own = {name: np.array(values) for name, values in arrays.items()}
    return Cohort(**own, n_items=n_items, first_row=first_row)
