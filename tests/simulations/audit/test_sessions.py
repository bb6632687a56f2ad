"""The audit of protocols: silent for the smallest set of survivors, loud for missing shares of the noise."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.privacy.releases.noise import NoiseSource, SeededNoise
from fedboard.common.protocols.registry import PROTOCOL_NAMES
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.simulations.audit.attacks.game import canary_game
from fedboard.simulations.audit.attacks.noise_check import noise_test
from fedboard.simulations.audit.sessions import Sessions, honest_noise
from fedboard.simulations.audit.subject import Subject, subject_of
from fedboard.simulations.engine import Engine, WorkerPool
from fedboard.simulations.problem import Problem, load_problem
from tests.common.protocols.meetings import SilentNoise
from tests.common.tasks.conftest import N_ITEMS, a_prepared_board, a_task, population
from tests.simulations.audit.conftest import configuration

OTHERS = [name for name in PROTOCOL_NAMES if name != "trusted"]
SIZE = "noise has the size that is booked"


def a_subject(protocol: str) -> tuple[Subject, Problem]:
    config = configuration(
        algorithm="residual",
        settings={"rank": 3, "rounds": 1},
        run={"kernels": "plain", "protocol": protocol},
    )
    problem = load_problem(config)
    return subject_of(config, problem), problem


def failed(subject: Subject, problem: Problem) -> set[str]:
    with (
        WorkerPool() as pool,
        Engine(subject.task, problem.train, protocol=subject.protocol, pool=pool) as engine,
    ):
        result = noise_test(subject, engine, seed=3)
    return {finding.check for finding in result.findings if not finding.passed}


@pytest.mark.parametrize("protocol", OTHERS)
def test_what_leaves_has_the_noise_that_is_booked_when_as_few_stay_as_may(protocol: str) -> None:
    assert not failed(*a_subject(protocol))


def lazy(drawn: NoiseSource, version: int, client: int) -> NoiseSource:
    """Two of the seven clients that stay draw nothing."""
    return SilentNoise() if client < 2 else honest_noise(drawn, version, client)


@pytest.mark.parametrize("protocol", ["distributed-dp", "local"])
def test_shares_of_the_noise_that_are_missing_are_noticed(protocol: str) -> None:
    subject, problem = a_subject(protocol)
    assert subject.sessions is not None

    broken = replace(subject, sessions=replace(subject.sessions, client_noise=lazy))

    assert SIZE in failed(broken, problem)


@pytest.mark.parametrize("protocol", ["secure-sum", "distributed-dp"])
def test_canaries_show_less_than_is_claimed_and_more_than_nothing(protocol: str) -> None:
    subject, problem = a_subject(protocol)
    with (
        WorkerPool() as pool,
        Engine(subject.task, problem.train, protocol=subject.protocol, pool=pool) as engine,
    ):
        game = canary_game(subject, engine, seed=1, n_canaries=200)

    assert game.rejected == 0
    assert 0.0 < game.epsilon_lower_bound <= game.claimed
    assert not game.violated_releases


@pytest.mark.parametrize("protocol", ["secure-sum", "two-server"])
def test_what_the_adversary_takes_off_is_the_whole_sum_of_honest_users(protocol: str) -> None:
    task, sessions = a_task(), Sessions(choice=protocol, backend="numpy")
    board, drawn = a_prepared_board(task), SeededNoise(1)
    requests = task.requests(board)
    rows = task.contribute(population(), board, requests)

    carried = sessions.carry([rows], board, requests, drawn)
    known = sessions.known([rows], rows, board, requests, drawn)

    assert board.catalogue.n_items == N_ITEMS
    for name, sums in whole_sums(carried, requests).items():
        np.testing.assert_array_equal(sums, known[name])
