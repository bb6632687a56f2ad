"""One user more or less in the file: correct runs change by her rows alone, one generator for all is found out."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common import cohort as cohorts
from fedboard.common.protocols.sums import exact
from fedboard.simulations.audit.file_game import FileGame, file_games
from fedboard.simulations.audit.subject import LARGEST_BLOCK, Plan, Subject
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.data.splits import coins
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.problem import Problem, load_problem
from tests.simulations.audit.broken.mutants import mutant_named
from tests.simulations.audit.conftest import audited, changed, configuration, entered

pytestmark = pytest.mark.slow

N_GAMES, MANY_GAMES, BLOCK = 24, 60, 3_000
ONE_GENERATOR = "one generator for the split"
MOVES = "one user of the file moves each sum by at most its bound"
OTHERS = "nobody else's rows change with her"
GUESSED = "whether she is there is guessed no oftener than allowed"


def played(pool: WorkerPool, subject: Subject | None = None, *, kind: str = "explicit") -> FileGame:
    correct, entrance = audited(kind)
    return file_games(subject or correct, entrance, Plan(file_games=N_GAMES, block=BLOCK), pool=pool)


def failed(game: FileGame) -> set[str]:
    return {finding.check for finding in game.findings if not finding.passed}


@pytest.mark.parametrize(
    "kind",
    [
        *("explicit", "implicit", "residual"),
        *(pytest.param(kind, marks=pytest.mark.thorough) for kind in ("replace", "uniform")),
    ],
)
def test_a_user_of_the_file_changes_her_own_rows_and_within_the_bounds(kind: str, pool: WorkerPool) -> None:
    game = played(pool, kind=kind)

    assert not failed(game)
    assert 0.5 < game.allowed < 0.8
    assert 0.99 < max(game.shares.values()) <= 1, "the bound is reached, so the test can fail"


def test_whose_ratings_were_split_by_one_generator_is_told_from_the_counts(pool: WorkerPool) -> None:
    synthetic = {"n_users": 220, "n_items": 400, "mean_ratings_per_user": 60}
    data = {"source": "synthetic", "synthetic": synthetic}
    config = configuration(data=data, privacy={"epsilon": 20.0})
    subject, entrance = entered(config)

    plan, reader = Plan(file_games=MANY_GAMES, block=0), mutant_named(ONE_GENERATOR).read

    broken = file_games(subject, changed(entrance, read=reader), plan, pool=pool)
    correct = file_games(subject, entrance, plan, pool=pool)

    assert failed(broken) == {MOVES, OTHERS, GUESSED}
    assert not failed(correct)


def test_what_goes_by_place_after_a_block_is_noticed_in_the_file_that_is_larger(pool: WorkerPool) -> None:
    """Coins of ratings that go by where they stand, once a whole block lies before them."""
    correct, entrance = audited()

    def by_place(config: SimulationConfig) -> Problem:
        problem = load_problem(config)
        place = np.arange(problem.train.n_ratings)
        return replace(problem, train=problem.train.where((place < BLOCK) | (place % 7 > 0)))

    broken = changed(entrance, read=by_place)
    large, small = (
        file_games(correct, broken, Plan(file_games=4, block=block), pool=pool) for block in (BLOCK, 0)
    )

    assert OTHERS in failed(large)
    assert not failed(small)  # negative control: the honest users alone are no block
    assert not failed(file_games(correct, entrance, Plan(file_games=4, block=BLOCK), pool=pool))


def test_the_large_file_is_larger_than_what_a_run_takes_at_a_time(pool: WorkerPool) -> None:
    _, entrance = audited()
    read = entrance.rows(entrance.honest.times(5))

    assert max(coins._RATINGS_AT_ONCE, exact._ENTRIES_AT_ONCE, cohorts._ENTRIES_AT_ONCE) <= LARGEST_BLOCK
    assert exact._ROWS_AT_ONCE <= LARGEST_BLOCK // 32
    assert (read.cohort.n_users, read.cohort.n_items) == (5 * entrance.honest.ids.size, entrance.n_items)
    assert (np.diff(read.ids) > 0).all()
