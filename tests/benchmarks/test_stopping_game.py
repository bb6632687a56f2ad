"""The stopping game: who stops where the outcomes suit exceeds what was spent, and not what is claimed."""

import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fedboard.common.certificate import certify
from fedboard.common.errors import BudgetExceededError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.accounting.exact import (
    delta_of,
    epsilon_of,
    epsilon_when_adaptive,
    mu_for,
)
from fedboard.common.privacy.accounting.grouping import epsilon_by_loss_distributions, mechanisms_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import Event
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.noise import SecureNoise
from tests.common.privacy.exact_curves import gaussian, laplace

pytestmark = pytest.mark.slow

BENCHMARK = Path(__file__).parent.parent.parent / "benchmarks" / "privacy_parts" / "stopping.py"
DELTA = 1e-5


@pytest.fixture(scope="module")
def game() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stopping_game", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its data classes look their module up
    spec.loader.exec_module(module)
    return module


def fixed_claim(epsilon: float, n_releases: int) -> list[float]:
    """One epsilon, stated wherever he stops."""
    return [epsilon] * (n_releases + 1)


@pytest.mark.parametrize("planned", [True, False])
def test_certificates_of_a_run_that_is_stopped_at_the_best_moment_are_not_exceeded(
    game: ModuleType, tmp_path: Path, planned: bool
) -> None:
    """The claims are those of real certificates, made after each of 25 releases."""
    played = game.Game(mu=0.1, releases=25)
    budget = Budget(epsilon=played.cost(25, DELTA), delta=DELTA, adjacency=Adjacency.ADD_REMOVE)
    events = [{**gaussian(10.0, name=f"r{k}"), **SecureNoise().describe()} for k in range(25)]
    plan = {str(event["name"]): 10.0 for event in events} if planned else None
    claimed, spent = [], []
    with Ledger.create(tmp_path / "ledger.sqlite", budget, plan=plan) as ledger:
        for made in range(26):
            if made:
                ledger.book(events[made - 1])
            certificate = certify(
                ledger.events(), commitment=ledger.commitment, trust=(), assumptions=(), dataset="made up"
            )
            assert certificate.holds
            claimed.append(certificate.claim.epsilon)
            spent.append(ledger.spent().epsilon)

    true = game.best_stopping(played, claimed).delta
    exact = delta_of(claimed[-1], mu=0.1 * math.sqrt(25))

    assert len(set(claimed)) == 1
    assert exact <= DELTA
    assert true == pytest.approx(exact, rel=2e-3)  # the grid lies above it, by its cells
    # What certificates used to claim, in the same game.
    assert game.best_stopping(played, spent).delta > 6.5 * DELTA


def test_four_hundred_releases_cannot_exceed_the_claim_and_could_exceed_what_was_spent(
    game: ModuleType,
) -> None:
    found = game.judge(game.Game(mu=0.2, releases=400), DELTA, n_plays=4_000, rng=np.random.default_rng(1))[
        "claims"
    ]

    assert found["spent"]["true_delta"] > 15 * DELTA
    for name in ("budget", "plan"):
        assert found[name]["true_delta"] <= DELTA
        assert found[name]["holds"]


@pytest.mark.parametrize(("mu", "releases", "epsilon"), [(0.1, 25, 1.0), (0.3, 7, 2.0), (1.0, 4, 6.0)])
def test_without_a_choice_the_grid_finds_the_curve_of_the_gaussian(
    game: ModuleType, mu: float, releases: int, epsilon: float
) -> None:
    exact = delta_of(epsilon, mu=mu * math.sqrt(releases))

    found = game.best_stopping(game.Game(mu=mu, releases=releases), fixed_claim(epsilon, releases)).delta

    assert exact <= found <= exact * 1.003


def test_random_walks_reach_what_the_grid_says(game: ModuleType) -> None:
    """The rule that the grid finds, played; six standard errors leave one alarm in 10^9."""
    played = game.Game(mu=0.1, releases=25)
    spent = game.claims_today(played, DELTA)["spent"]
    best = game.best_stopping(played, spent)

    reached, error = game.play(played, spent, best, n_plays=100_000, rng=np.random.default_rng(2))

    assert abs(reached - best.delta) < 6 * error < 0.2 * best.delta


MIXED = [(1.0, 1e-5, 0.08, 0.1), pytest.param(3.0, 1e-5, 0.2, 0.5, marks=pytest.mark.thorough)]


def by_loss_distributions(events: list[Event], delta: float) -> float:
    """Rounded up more coarsely than a ledger would, so that it takes no minute."""
    return epsilon_by_loss_distributions(mechanisms_of(events), delta, coarsening=100.0)


@pytest.mark.parametrize(("epsilon", "delta", "mu", "pure"), MIXED)
def test_pure_and_gaussian_releases_chosen_on_the_way_cannot_exceed_the_budget(
    game: ModuleType, epsilon: float, delta: float, mu: float, pure: float
) -> None:
    """All rules of choosing and stopping at once, with what a ledger without a plan lets through."""
    budget = Budget(epsilon=epsilon, delta=delta, adjacency=Adjacency.ADD_REMOVE)
    cells = round(pure / (mu / game.CELLS))
    pure = cells * mu / game.CELLS
    most = (int(epsilon / pure) + 4, int((mu_for(epsilon, delta) / mu) ** 2) + 4)

    def allowed_by(cost: Callable[[list[Event]], float]) -> Callable[[int, int], bool]:
        def allowed(n_pure: int, n_gaussian: int) -> bool:
            events = [laplace(1 / pure, name=f"p{k}") for k in range(n_pure)]
            events += [gaussian(1 / mu, name=f"g{k}") for k in range(n_gaussian)]
            return not events or cost(events) <= epsilon * (1 + 1e-9)

        return allowed

    def true_delta(cost: Callable[[list[Event]], float]) -> float:
        found: float = game.chosen_on_the_way(budget, mu=mu, pure=cells, allowed=allowed_by(cost), most=most)
        return found

    assert true_delta(lambda events: epsilon_when_adaptive(events, delta)) <= delta
    # Loss distributions, right for what was fixed beforehand, are no filter: two ways on that they hold to be equal
    # are not, once the outcomes are known.
    assert true_delta(lambda events: by_loss_distributions(events, delta)) > 1.5 * delta


def test_a_ledger_without_a_plan_lets_through_what_the_filter_does(tmp_path: Path) -> None:
    """The numbers of the game are those of a ledger: as many releases as fit, and not one more."""
    budget = Budget(epsilon=epsilon_of(DELTA, mu=0.5), delta=DELTA, adjacency=Adjacency.ADD_REMOVE)
    with Ledger.create(tmp_path / "ledger.sqlite", budget) as ledger:
        for number in range(25):
            ledger.book({**gaussian(10.0, name=f"r{number}"), **SecureNoise().describe()})
        with pytest.raises(BudgetExceededError):
            ledger.book({**gaussian(1e3, name="one more"), **SecureNoise().describe()})
