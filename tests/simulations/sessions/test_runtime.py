"""Protocols in the engine: sums over the clients that stayed, for any number of workers, with masks and without."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from fedboard.common.arrays import BoolArray, IntArray
from fedboard.common.board import Board
from fedboard.common.contribution_bounding.participation import Attendance, PoissonParticipation
from fedboard.common.errors import InputError, PrivacyError, TooFewAnswersError
from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.sums.row_bounds import only_rows
from fedboard.common.protocols.sums.truncated import coarse_sums
from fedboard.common.protocols.trusted import Trusted
from fedboard.simulations.config import RunConfig
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.sessions.choice import sums_left
from fedboard.simulations.sessions.clients import Clients
from fedboard.simulations.sessions.runtime import CancelledEngine, ProtocolEngine, SimulatedFleet, recipe_of
from tests.common.algorithms.conftest import a_residual_task, population, residual_boards

N_USERS, N_CLIENTS = 60, 20
COHORT = population(n_users=N_USERS)
TASK = a_residual_task()
BOARDS = residual_boards(TASK)
LARGE = BOARDS[-2]
"""An alternation: its bounds are far beyond 32 bits."""


def a_fleet(
    protocol: str, *, n_clients: int = N_CLIENTS, dropout: float = 0.0, **settings: object
) -> SimulatedFleet:
    run = RunConfig(protocol=protocol, clients=n_clients, protocol_settings=settings)
    return SimulatedFleet(
        recipe=recipe_of(run, backend="numpy", n_users=N_USERS),
        clients=Clients.of(N_USERS, n_clients),
        noise=SeededNoise(3),
        dropout=dropout,
        seed=2,
    )


@contextmanager
def runtime(
    fleet: SimulatedFleet,
    kind: type[ProtocolEngine] | type[CancelledEngine] = ProtocolEngine,
    workers: int = 1,
) -> Iterator[ProtocolEngine | CancelledEngine]:
    with WorkerPool(workers) as pool, Engine(TASK, COHORT, protocol=Trusted(), pool=pool) as rows:
        yield kind(rows, fleet, pool=pool)


def sums_of(made: ProtocolEngine | CancelledEngine, board: Board) -> dict[str, IntArray]:
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
    with runtime(a_fleet("secure-sum"), workers=workers) as made:
        assert_same(sums_of(made, board), expected(board))


def test_simulated_devices_that_are_vouched_for_confirm_who_stayed_and_the_sum_is_theirs() -> None:
    fleet = a_fleet("secure-sum", dropout=0.1, vouched_by="simulation")
    places = fleet.losses(LARGE.version).places
    assert {0, 1, 2} & set(places.tolist()), "some are lost"
    gave = (places == -1) | (places == 2)

    with runtime(fleet) as made:
        found = sums_of(made, LARGE)

    assert_same(found, expected(LARGE, fleet.clients.users_of(gave)))
    assert isinstance(made, ProtocolEngine)
    assert len(made.steps) == 5
    with pytest.raises(InputError, match="vouched_by must be 'simulation' in a simulation"):
        a_fleet("secure-sum", vouched_by="ab" * 32)


@pytest.mark.parametrize("kind", [ProtocolEngine, CancelledEngine])
def test_of_clients_that_are_lost_those_that_gave_are_in_the_sum_with_masks_and_without(
    kind: type[ProtocolEngine] | type[CancelledEngine],
) -> None:
    fleet = a_fleet("secure-sum", dropout=0.25)
    places = fleet.losses(LARGE.version).places
    assert {-1, 0, 1, 2} == set(places.tolist()), "some are lost at each place"
    gave = (places == -1) | (places == 2)

    with runtime(fleet, kind) as made:
        found = sums_of(made, LARGE)

    assert_same(found, expected(LARGE, fleet.clients.users_of(gave)))
    if isinstance(made, ProtocolEngine):
        assert made.steps[0].asked == N_CLIENTS


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["secure-sum", "two-server"])
def test_without_messages_the_sums_are_those_of_the_sessions_to_the_last_bit(protocol: str) -> None:
    settings = {"most_items": 5} if protocol == "two-server" else {}
    fleet = a_fleet(protocol, dropout=0.2, **settings)

    with runtime(fleet) as real, runtime(fleet, CancelledEngine) as cancelled:
        for board in (BOARDS[0], LARGE):
            assert_same(sums_of(cancelled, board), sums_of(real, board))


@pytest.mark.parametrize("protocol", ["distributed-dp", "local"])
def test_the_noise_of_all_clients_in_one_draw_has_the_deviation_of_their_shares(protocol: str) -> None:
    fleet = a_fleet(protocol)
    left = sums_left(protocol, fleet.recipe.make())
    assert left.shares is not None
    n_shares = N_USERS if protocol == "local" else N_CLIENTS
    request = next(r for r in TASK.requests(LARGE) if r.source.per_item)
    deviation = left.shares.share_stddev(request.release) * np.sqrt(n_shares)

    with runtime(fleet) as real, runtime(fleet, CancelledEngine) as cancelled:
        for made in (real, cancelled):
            gathered = made.gather(LARGE, TASK.requests(LARGE)).sums
            noise = (
                gathered.block([request], 0, request.release.rows)[request.name]
                - expected(LARGE)[request.name]
            )
            assert gathered.noise_shares >= left.shares.least
            # 100 numbers: the deviation is known to 7 %, and a factor of sqrt 2 or a share too few stands out
            assert noise.size == 100
            assert 0.75 < noise.std() / deviation < 1.25


def test_too_few_clients_lose_the_round_the_same_way_with_masks_and_without() -> None:
    fleet = a_fleet("secure-sum", dropout=0.8)

    with runtime(fleet) as real, pytest.raises(TooFewAnswersError):
        real.gather(LARGE, TASK.requests(LARGE))
    with runtime(fleet, CancelledEngine) as cancelled, pytest.raises(TooFewAnswersError) as lost:
        cancelled.gather(LARGE, TASK.requests(LARGE))
    assert lost.value.given


def test_a_round_that_only_some_take_part_in_is_refused() -> None:
    attendance = Attendance(participation=PoissonParticipation(0.5), name="round", noise=SeededNoise(0))
    requests = attendance.mark(TASK.requests(LARGE))

    for kind in (ProtocolEngine, CancelledEngine):
        with (
            runtime(a_fleet("secure-sum"), kind) as made,
            pytest.raises(PrivacyError, match="who takes part"),
        ):
            made.gather(LARGE, requests, attendance)


def test_masks_are_left_out_with_seeded_noise_only() -> None:
    fleet = SimulatedFleet(
        recipe=a_fleet("secure-sum").recipe, clients=Clients.of(N_USERS, N_CLIENTS), noise=SecureNoise()
    )

    with pytest.raises(InputError, match="in simulations only"), runtime(fleet, CancelledEngine):
        pass
