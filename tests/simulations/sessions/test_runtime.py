"""Protocols in the engine: sums over the clients that stayed, for any number of workers."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from fedboard.common.arrays import BoolArray, IntArray
from fedboard.common.board import Board
from fedboard.common.contribution_bounding.participation import Attendance, PoissonParticipation
from fedboard.common.errors import InputError, PrivacyError, TooFewAnswersError
from fedboard.common.privacy.releases.noise import SeededNoise
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.common.protocols.sums.residues import Packing, coarse_sums
from fedboard.common.protocols.sums.row_bounds import only_rows
from fedboard.common.protocols.trusted import Trusted
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.sections import RunConfig
from fedboard.simulations.sessions.choice import sums_left
from fedboard.simulations.sessions.clients import Clients
from fedboard.simulations.sessions.runtime import ProtocolEngine, recipe_of
from tests.common.algorithms.conftest import a_residual_task, population, residual_boards

N_USERS, N_CLIENTS = 60, 20
COHORT = population(n_users=N_USERS)
TASK = a_residual_task()
BOARDS = residual_boards(TASK)
LARGE = BOARDS[-2]
"""An alternation: its bounds are far beyond 32 bits."""


@contextmanager
def runtime(
    protocol: str,
    *,
    n_clients: int = N_CLIENTS,
    dropout: float = 0.0,
    workers: int = 1,
    **settings: object,
) -> Iterator[ProtocolEngine]:
    run = RunConfig(protocol=protocol, clients=n_clients, protocol_settings=settings)
    recipe = recipe_of(run, backend="numpy", n_users=N_USERS)
    with WorkerPool(workers) as pool, Engine(TASK, COHORT, protocol=Trusted(), pool=pool) as rows:
        yield ProtocolEngine(
            rows=rows,
            recipe=recipe,
            clients=Clients.of(N_USERS, n_clients),
            noise=SeededNoise(3),
            pool=pool,
            dropout=dropout,
            seed=2,
        )


def sums_of(made: ProtocolEngine, board: Board) -> dict[str, IntArray]:
    return whole_sums(made.gather(board, TASK.requests(board)).sums, TASK.requests(board))


def expected(board: Board, present: BoolArray | None = None) -> dict[str, IntArray]:
    """The coarse sums over the users that are there, on the grid of the releases."""
    requests = TASK.requests(board)
    shifts = Packing.of(requests, most_users=N_USERS).shifts
    rows = TASK.contribute(COHORT, board, requests)
    rows = rows if present is None else only_rows(rows, present)
    return {name: sums << shifts[name] for name, sums in coarse_sums(rows, requests, shifts).items()}


def assert_same(found: dict[str, IntArray], wanted: dict[str, IntArray]) -> None:
    assert set(found) == set(wanted)
    for name, sums in wanted.items():
        np.testing.assert_array_equal(found[name], sums, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "workers"), [(BOARDS[0], 1), (LARGE, 2)], ids=["preparation", "alternation"]
)
def test_a_secure_sum_in_the_engine_is_the_coarse_sum_to_the_last_bit(board: Board, workers: int) -> None:
    with runtime("secure-sum", workers=workers) as made:
        assert_same(sums_of(made, board), expected(board))


@pytest.mark.parametrize(
    ("dropout", "settings", "steps"), [(0.25, {}, 4), (0.1, {"vouched_by": "simulation"}, 5)]
)
def test_of_clients_that_are_lost_those_that_gave_are_in_the_sum(
    dropout: float, settings: dict[str, str], steps: int
) -> None:
    with runtime("secure-sum", dropout=dropout, **settings) as made:
        places = made.losses(LARGE.version).places
        assert {0, 1, 2} & set(places.tolist()), "some are lost"
        gave = (places == -1) | (places == 2)

        found = sums_of(made, LARGE)

        assert_same(found, expected(LARGE, made.clients.users_of(gave)))
        assert made.steps[0].asked == N_CLIENTS
        assert len(made.steps) == steps


def test_nobody_vouches_for_devices_that_are_not_there() -> None:
    with (
        pytest.raises(InputError, match="vouched_by must be 'simulation' in a simulation"),
        runtime("secure-sum", vouched_by="ab" * 32),
    ):
        pass


@pytest.mark.parametrize("protocol", ["distributed-dp", "local"])
def test_the_noise_of_all_clients_has_the_deviation_of_their_shares(protocol: str) -> None:
    with runtime(protocol) as made:
        left = sums_left(protocol, made.protocol)
        assert left.shares is not None
        n_shares = N_USERS if protocol == "local" else N_CLIENTS
        request = next(r for r in TASK.requests(LARGE) if r.source.per_item)
        deviation = left.shares.share_stddev(request.release) * np.sqrt(n_shares)
        gathered = made.gather(LARGE, TASK.requests(LARGE)).sums

        sums = gathered.block([request], 0, request.release.rows)[request.name]
        noise = sums - expected(LARGE)[request.name]

    assert gathered.noise_shares >= left.shares.least
    # 100 numbers: the deviation is known to 7 %, and a factor of sqrt 2 or a share too few stands out
    assert noise.size == 100
    assert 0.75 < noise.std() / deviation < 1.25


def test_too_few_clients_lose_the_round() -> None:
    with runtime("secure-sum", dropout=0.8) as made, pytest.raises(TooFewAnswersError):
        made.gather(LARGE, TASK.requests(LARGE))


def test_a_round_that_only_some_take_part_in_is_refused() -> None:
    attendance = Attendance(participation=PoissonParticipation(0.5), name="round", noise=SeededNoise(0))
    requests = attendance.mark(TASK.requests(LARGE))

    with runtime("secure-sum") as made, pytest.raises(PrivacyError, match="who takes part"):
        made.gather(LARGE, requests, attendance)
