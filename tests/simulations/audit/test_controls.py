"""The audit is told from what it says of broken runs: each known bug is caught where it shows, nothing else is."""

import pytest

from fedboard.simulations.audit.entrance import Reader
from fedboard.simulations.audit.subject import Plan
from fedboard.simulations.engine import WorkerPool
from tests.simulations.audit.broken.helpers import honest_helper, silent_helper
from tests.simulations.audit.broken.mutants import mutant_named, mutants
from tests.simulations.audit.conftest import audited, changed
from tests.simulations.audit.controls import Examiner

pytestmark = pytest.mark.slow

SHAPE, SIZE = "noise has the shape that is booked", "noise has the size that is booked"
CELLS, TWINS = "every cell has noise of its own", "noise that is too small or too large would be noticed"
MOVES = "moves by more than its bound"
OF_THE_FILE = "one user of the file moves each sum by at most its bound"
OTHERS = "canaries in the file change their own rows alone"
CAUGHT: dict[str, dict[str, set[str]]] = {
    "unclipped labels": {"sensitivity": {f"round-{t}/linear {MOVES}" for t in (1, 2)}},
    "unclipped vectors": {
        "sensitivity": {f"round-{t}/{kind} {MOVES}" for t in (1, 2) for kind in ("quadratic", "linear")}
    },
    "weights not normalised": {"file": {OF_THE_FILE}, "sensitivity": {f"counts {MOVES}"}},
    "data-dependent normaliser": {
        "sensitivity": {
            "nobody's contribution depends on who else is there",
            "sums do not depend on how users are split",
        },
        "canaries": {OTHERS},
    },
    "noise x 0.8": {"noise": {SHAPE, SIZE, TWINS}},
    "no noise": {
        "file": {"whether she is there is guessed no oftener than allowed"},
        "noise": {SHAPE, SIZE, CELLS},
        "canaries": {"all releases together keeps its claim", "each release keeps its claim"},
    },
    "count released twice": {"noise": {SHAPE, SIZE, TWINS}},
    "same noise in two rounds": {"noise": {"noise repeats nowhere"}},
    "one generator for the split": {
        "file": {OF_THE_FILE, "nobody else's rows change with her"},
        "canaries": {OTHERS},
    },
    "mean over the exact number": {
        "noise": {SHAPE, SIZE, CELLS},
        "canaries": {"each release keeps its claim"},
    },
    "one exact cell": {"noise": {CELLS}},
    "round skipped by its sum": {"course": {"a run takes the same course whoever is there"}},
    "overlapping stream": {"noise": {"a stream never comes back to its words"}},
}
"""By mutant: the parts of the audit that flag it, and checks of them that must be among those that fail."""


def examiner(pool: WorkerPool, seed: int = 0, *, read: Reader | None = None) -> Examiner:
    """Quick: what is broken in small releases here has no noise at all, and the large ones show the rest."""
    plan = Plan(seed=seed, canaries=300, small_numbers=40, file_games=16, block=0)
    return Examiner(entrance=changed(audited()[1], read=read), plan=plan, random_users=8, pool=pool)


@pytest.mark.parametrize("name", [mutant.name for mutant in mutants()])
def test_every_mutant_is_caught_where_it_shows(name: str, pool: WorkerPool) -> None:
    mutant = mutant_named(name)
    verdict = examiner(pool, read=mutant.read).all_parts(mutant.break_it(audited()[0]))

    assert verdict.caught_by == set(CAUGHT[name])
    for part, checks in CAUGHT[name].items():
        assert {found.check for found in verdict.failed if found.part == part} >= checks
    if name == "no noise":
        assert verdict.epsilon_lower_bound > 2 * 5.0


def test_a_second_server_that_adds_nothing_is_caught_by_what_the_first_one_holds(pool: WorkerPool) -> None:
    subject, _ = audited()

    verdict = examiner(pool).two_servers(silent_helper(subject))
    details = {found.check: found.detail for found in verdict.failed}

    assert verdict.caught_by == {"noise", "canaries"}
    assert "the first server's" in details[SIZE]
    assert "the first server" in details["each release keeps its claim"]
    assert not examiner(pool).two_servers(honest_helper(subject)).failed


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 5))]


@pytest.mark.parametrize("seed", SEEDS)
def test_correct_runs_are_not_flagged(seed: int, pool: WorkerPool) -> None:
    assert not examiner(pool, seed).all_parts(audited()[0]).failed


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_shows_where_no_data_leave(seed: int, pool: WorkerPool) -> None:
    verdict = examiner(pool, seed).null(audited()[0])

    assert not verdict.failed
    assert verdict.epsilon_lower_bound == 0.0
