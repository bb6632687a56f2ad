"""A stream that is in memory, laid where all workers see it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.cohort import Cohort
from fedboard.simulations.engine.jobs import SharedCohort
from fedboard.simulations.engine.pool import WorkerPool
from fedboard.simulations.engine.shared import SharedArrays
from fedboard.simulations.streams.stream import InMemoryStream, UserStream


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SharedStream:
    """The rows of an ``InMemoryStream``, which would pickle with all of them."""

    population: SharedCohort
    name: str
    identity: str
    n_users: int
    n_items: int
    rating_range: tuple[float, float]
    presence: bool
    items_listed: bool
    item_ids: NDArray[np.str_]
    titles: tuple[str, ...] | None

    @staticmethod
    def of(stream: InMemoryStream, shared: SharedArrays) -> "SharedStream":
        """Copy the rows into shared memory."""
        return SharedStream(
            population=SharedCohort.of(stream.read(0, stream.n_users), shared),
            name=stream.name,
            identity=stream.identity,
            n_users=stream.n_users,
            n_items=stream.n_items,
            rating_range=stream.rating_range,
            presence=stream.presence,
            items_listed=stream.items_listed,
            item_ids=stream.item_ids,
            titles=stream.titles,
        )

    def counts(self, start: int, stop: int) -> IntArray:
        """Ratings of each of these users."""
        return np.diff(self.population.indptr.array[start : stop + 1])

    def read(self, start: int, stop: int) -> Cohort:
        """These users' rows, without copying."""
        return self.population.cohort().rows(start, stop)


def within_reach(stream: UserStream, shared: SharedArrays, pool: WorkerPool) -> UserStream:
    """A stream that can be sent with every job of a pool: one in memory is laid into shared memory first."""
    if isinstance(stream, InMemoryStream) and pool.n_workers > 1:
        return SharedStream.of(stream, shared)
    return stream
