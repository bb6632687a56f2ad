"""Example 3, algorithm 2 by gradients, and posts like the paper's news: against what is written down by hand."""

import math
from pathlib import Path

import numpy as np
import pytest

from research.epasto import examples, gradients, reviews
from research.epasto.problems import Problem
from research.shared.experiment import Setting

pytest.importorskip("cvxpy")


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(seeds=1, scratch=tmp_path, on_progress=lambda phase, done, total: None)


def few_reviews() -> Problem:
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(12), [1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 9])
    features = np.column_stack([np.ones(users.size), rng.integers(0, 2, (users.size, 2))]).astype(float)
    labels = np.clip(np.rint(4 + 3 * features[:, 1] + rng.normal(size=users.size)), 1, 10)
    return Problem(name="few", features=features, labels=labels, users=users, label_range=(1.0, 10.0))


def test_the_variance_of_a_limit_is_the_theorem_s_sum() -> None:
    """All rows, g = 8: C of least squares is 1/16 on rows (1, 0) and 1/56 on rows (0, 1)."""
    g, width = 8, math.sqrt(8) / 2
    features, users = examples._unit_rows(g)
    (found, *_) = examples._drawn_variances(g, g, features, users, width)

    largest = max(g / 16, 1 / 16 + (g - 1) / 56)  # user 1; one of the others
    by_hand = 16 / 16**2 + 56 / 56**2 + 2 * 2 * (width * largest) ** 2
    assert found == pytest.approx(by_hand)


def test_padded_lanes_take_the_steps_that_a_plain_loop_takes() -> None:
    """Without noise, users drawn by the same coins: a lane is Algorithm 1 of [BST14] line by line."""
    problem = few_reviews()
    labels = reviews.binary_labels(problem)
    cells = gradients.cells_of(problem, (2,))
    lanes = gradients._Lanes(problem, labels, cells)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "printed_noise", lambda epsilon, m: 0.0)
        found = lanes.run(30.0, np.random.default_rng(5))

    m, d = 12, 3
    rng, thetas = np.random.default_rng(5), np.zeros((len(cells), d))
    for step in range(1, m * m + 1):
        users = rng.integers(m, size=len(cells))
        rng.standard_normal((len(cells), d))
        for lane, (cell, user) in enumerate(zip(cells, users, strict=True)):
            counts = np.bincount(problem.users[cell.rows], minlength=m)
            capped = np.minimum(cell.bound, counts)
            gradient = np.zeros(d)
            for row in cell.rows[problem.users[cell.rows] == user]:
                x, y = problem.features[row], labels[row]
                own = -y * x / (1 + math.exp(y * float(thetas[lane] @ x)))
                own *= min(1.0, 1.0 / float(np.linalg.norm(own)))
                gradient += capped[user] / capped.sum() / counts[user] * own
            lipschitz = m * float((capped / capped.sum()).max())
            length = 2 * 10.0 * math.sqrt(d) / (math.sqrt(step) * lipschitz)
            thetas[lane] = np.clip(thetas[lane] - length * m * gradient, -10, 10)
    np.testing.assert_allclose(found, thetas, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
def test_the_printed_noise_is_the_formula_and_what_it_costs_is_an_accountant_s() -> None:
    assert gradients.printed_noise(30.0, 502) == pytest.approx(
        math.sqrt(32 * math.log(502 / 0.1) * math.log(1 / 0.1)) / 30
    )
    # For small epsilon the formula is generous, as its proof says.
    assert gradients.printed_epsilon(0.5, 100) < 0.5
    assert gradients.printed_epsilon(1.0, 100) > gradients.printed_epsilon(0.5, 100)
