"""The synthetic regressions of appendix C: the problem is the paper's, and users' parts keep their bounds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.protocols.trusted import rows_within_bounds
from research.krichene import regression
from research.krichene.regression import (
    Regressions,
    Sizes,
    Solver,
    draw_regressions,
    lipschitz_step_count,
    rmse_of,
    solve_descent,
    solve_statistics,
    step_count,
)

SMALL = Sizes(n_tasks=20, n_users=2000, dimension=3, tasks_per_user=5.0)


@pytest.fixture(scope="module")
def problem() -> Regressions:
    return draw_regressions(1.0, 0, SMALL)


def test_the_problem_has_the_papers_sizes_and_split() -> None:
    drawn = draw_regressions(2.0, 1, Sizes())

    n = drawn.train.n_ratings + drawn.test.n_ratings
    assert 0.95 * 200_000 < n < 1.05 * 200_000  # 20 of 10 000 users each
    assert 0.19 < drawn.test.n_ratings / n < 0.21
    assert np.linalg.norm(drawn.features, axis=1).max() <= 1.0 + 1e-12
    # The density 2 x of task sizes: a quarter is below half of the largest possible one.
    assert 0.1 < np.mean(drawn.counts < 0.5 * drawn.counts.max()) < 0.45


def test_what_a_user_gives_and_what_is_held_out_does_not_depend_on_how_many_come_after_her() -> None:
    many, few = (draw_regressions(1.0, 0, replace(SMALL, n_users=n)) for n in (500, 200))

    np.testing.assert_array_equal(few.features, many.features[:200])
    part = many.train.rows(0, 200)
    for name in ("indptr", "items", "ratings"):
        np.testing.assert_array_equal(getattr(few.train, name), getattr(part, name))


@pytest.mark.slow
def test_without_noise_to_speak_of_both_algorithms_find_the_parameters(
    problem: Regressions, tmp_path: Path
) -> None:
    solver = Solver(epsilon=2000.0, ridge=1e-3, most_steps=60, gradient_clip=3.0)

    assert rmse_of(problem, solve_statistics(problem, solver, tmp_path)) < 0.01
    assert rmse_of(problem, solve_descent(problem, solver, tmp_path)) < 0.05


@pytest.mark.parametrize("solve", [solve_statistics, solve_descent])
def test_a_run_spends_its_epsilon_and_no_more(
    problem: Regressions, tmp_path: Path, solve: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledgers: list[Ledger] = []
    create = regression.Ledger.create

    def created(*arguments: object, **options: object) -> Ledger:
        ledgers.append(create(*arguments, **options))  # type: ignore[arg-type]
        return ledgers[-1]

    monkeypatch.setattr(regression.Ledger, "create", created)
    solver = Solver(epsilon=1.5, most_steps=4)
    spent: list[float] = []
    close = Ledger.__exit__

    def closing(ledger: Ledger, *reason: object) -> None:
        spent.append(ledger.spent().epsilon)
        close(ledger, *reason)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "__exit__", closing)
    solve(problem, solver, tmp_path)  # type: ignore[operator]

    assert len(ledgers) == 1
    assert 1.4999 < spent[0] <= 1.5


def test_each_gradient_is_clipped_and_a_larger_one_would_be_refused(problem: Regressions) -> None:
    solver = Solver(epsilon=1.0, gradient_clip=0.1)
    run = regression._Run(problem, solver)
    requests = (regression.descent_request("step-1", problem, solver, 1.0),)
    theta = np.ones((problem.counts.size, SMALL.dimension))

    honest = run.contribution(run.responses(theta, solver))
    broken = run.contribution(run.responses(theta, replace(solver, gradient_clip=4.0)))

    assert rows_within_bounds(honest, requests).all()
    assert not rows_within_bounds(broken, requests).all()


def test_the_step_count_is_the_theorems_up_to_the_limit(problem: Regressions) -> None:
    few, many = (step_count(problem, Solver(epsilon=1.0, most_steps=most)) for most in (7, 10**9))
    twice = step_count(problem, Solver(epsilon=2.0, most_steps=10**9))

    assert few == 7
    assert twice / many == pytest.approx((mu_for(2.0, 1e-5) / mu_for(1.0, 1e-5)) ** 2, rel=1e-2)


def test_step_counts_are_those_of_the_paper_in_its_own_units() -> None:
    mu, rank, counts, omega = 0.8, 5, np.array([10.0, 40.0]), np.array([0.5, 0.25])
    beta = mu**2 / 2  # (alpha, alpha beta)-RDP is mu^2 / 2 alpha

    expected = 2 / rank * np.sum(counts**2) / np.sum(1 / (omega**2 * beta))

    assert lipschitz_step_count(mu, rank, counts, omega) == pytest.approx(expected, rel=1e-12)
