"""What a comparison of protocols carries: the item round of a real board, and typical users of the data set."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np

from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Request, SumSource, numbers_of
from fedboard.common.errors import InputError
from fedboard.common.protocol import Given
from fedboard.common.task import Task
from fedboard.server.publication import BoardStore
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.calibrated import build_task
from fedboard.simulations.runs.directory import RunDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One round to be carried."""

    task: Task
    board: Board
    requests: tuple[Request, ...]
    clients: tuple[Cohort, ...]
    """Rows of a few typical clients. Private."""
    board_bytes: int
    """What a client gets before the contribution step, beside the step's message."""

    @property
    def numbers(self) -> int:
        """How many numbers the round's sums have."""
        return numbers_of(self.requests)

    @property
    def ratings(self) -> float:
        """Ratings that a client hosts, on average."""
        return float(np.mean([cohort.n_ratings for cohort in self.clients]))

    def given(self) -> tuple[Given, ...]:
        """What each of the clients gives."""
        return tuple(
            Given(
                contribution=self.task.contribute(cohort, self.board, self.requests), requests=self.requests
            )
            for cohort in self.clients
        )

    def contribute_seconds(self) -> float:
        """CPU seconds that a client takes to compute its rows, whatever the protocol; the median client's."""
        self.task.contribute(self.clients[0], self.board, self.requests)
        taken = []
        for cohort in self.clients:
            began = process_time()
            self.task.contribute(cohort, self.board, self.requests)
            taken.append(process_time() - began)
        return float(np.median(taken))


def workload_of(
    config: SimulationConfig,
    run: RunDirectory,
    problem: Problem,
    *,
    users_per_client: int,
    clients: int,
    ratings: float | None = None,
) -> Workload:
    """The last item round of a finished run.

    Args:
        config: of the run.
        run: finished.
        problem: of the run.
        users_per_client: rows that a client hosts.
        clients: how many typical ones to pick.
        ratings: what is typical, of one user; None for the median client's.

    Raises:
        InputError: the algorithm has no round that sums per item.
    """
    features = problem.feature_values
    task = build_task(config, rating_range=problem.rating_range, backend="numpy", features=features).task
    store = BoardStore(run.boards)
    for version in reversed(store.versions()):
        board = store.load(version)
        requests = task.requests(board)
        if any(request.source is SumSource.ITEM_LINEAR for request in requests):
            return Workload(
                task=task,
                board=board,
                requests=requests,
                clients=typical_clients(
                    problem.train, users_per_client=users_per_client, clients=clients, ratings=ratings
                ),
                board_bytes=store.path(version).stat().st_size,
            )
    raise InputError(f"algorithm {config.algorithm!r} has no round that sums vectors per item")


def typical_clients(
    population: Cohort, *, users_per_client: int, clients: int, ratings: float | None = None
) -> tuple[Cohort, ...]:
    """Clients of so many consecutive users whose number of ratings is nearest to what is typical.

    Args:
        population: private.
        users_per_client: rows of each.
        clients: how many.
        ratings: what is typical, of one user; None for the median client's.

    Raises:
        InputError: there are fewer users.
    """
    starts = np.arange(0, population.n_users - users_per_client + 1, users_per_client)
    if not starts.size:
        raise InputError(f"a client hosts 1 to {population.n_users} users, got {users_per_client}")
    sizes = population.indptr[starts + users_per_client] - population.indptr[starts]
    typical = np.median(sizes) if ratings is None else ratings * users_per_client
    nearest = np.argsort(np.abs(sizes - typical), kind="stable")[:clients]
    return tuple(population.rows(int(s), int(s) + users_per_client) for s in starts[nearest])


def spread(items: Sequence[Given], names: Sequence[str]) -> dict[str, Given]:
    """Hand what a few typical clients give to many."""
    return {name: items[place % len(items)] for place, name in enumerate(names)}
