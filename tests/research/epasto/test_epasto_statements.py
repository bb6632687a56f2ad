"""Example 3, algorithm 2 by gradients, and posts like the paper's news: against what is written down by hand."""

import math
from pathlib import Path

import numpy as np
import pytest

from research.epasto import examples, gradients, reviews
from research.epasto.problems import Problem, news_like_problem
from research.shared.drawing import house_style
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


def test_example_3_has_the_claim_s_sizes_and_gap(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "_UNIT_SIZES", (8, 16))
    monkeypatch.setattr(examples, "_SAMPLES", 8)
    with house_style():
        found = examples.example_3(setting)

    variance = found.numbers["variance"]
    for g in ("8", "16"):
        # The proof's C, by hand: 1/g on the g rows (1, 0) of the others, 1/(g (g - 1)) on the rest.
        n = int(g)
        proof = 1 / n + 1 / (n * (n - 1)) + n * (2 / n) ** 2
        assert variance["weighted"][g] <= proof * (1 + 1e-6) <= 6 / n
        assert variance["limited"][g] >= n / 9
        assert variance["samples above the bound"][g] >= 0.5
    assert found.numbers["ratio"]["16"] > 2.5 * found.numbers["ratio"]["8"]
    assert set(found.figures) == {"example-3"}


def test_the_variance_of_a_limit_is_the_theorem_s_sum() -> None:
    """All rows, g = 8: C of least squares is 1/16 on rows (1, 0) and 1/56 on rows (0, 1)."""
    g, width = 8, math.sqrt(8) / 2
    features, users = examples._unit_rows(g)
    (found, *_) = examples._drawn_variances(g, g, features, users, width)

    largest = max(g / 16, 1 / 16 + (g - 1) / 56)  # user 1; one of the others
    by_hand = 16 / 16**2 + 56 / 56**2 + 2 * 2 * (width * largest) ** 2
    assert found == pytest.approx(by_hand)


def test_posts_have_the_sizes_that_the_paper_gives_its_news() -> None:
    problem = news_like_problem(0)

    assert problem.features.shape == (3452, 10)
    assert (problem.sizes.size, problem.sizes.min(), problem.sizes.max()) == (297, 1, 878)
    assert problem.label_range == (0.0, 71.0)
    assert (problem.labels.min(), problem.labels.max()) == (0.0, 71.0)
    assert np.all(np.diff(problem.features, axis=1) >= 0)
    assert np.all(problem.features[:, -1] <= problem.labels)
    assert np.linalg.matrix_rank(problem.features) == 10


def news_small() -> Problem:
    whole = news_like_problem(0)
    _, rows = np.unique(whole.users[:150], return_inverse=True)
    return Problem(
        name="news (made up)",
        features=whole.features[:150, [0, 4, 9]] + np.random.default_rng(0).random((150, 3)),
        labels=whole.labels[:150],
        users=rows,
        label_range=whole.label_range,
    )


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
