"""What Liu et al. state beside their figures: each against a sum that is written down another way."""

from itertools import product
from math import exp, log
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.langevin.algorithm import user_weights
from fedboard.common.errors import InputError
from fedboard.simulations.data import SyntheticConfig
from research.block_solvers.factorisation import arrange
from research.block_solvers.sampling import DpmfConfig, sample_dpmf, trimmed
from research.liu import exact, personal, privacy
from research.liu.ratings import Rated, rated
from research.shared.drawing import house_style
from research.shared.experiment import Setting
from tests.research.few_ratings import setting_of

CHAIN = {**privacy.CHAIN, "most_ratings": 10, "rank": 4, "passes": 6}


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return setting_of(tmp_path, SyntheticConfig(n_users=200, n_items=60, mean_ratings_per_user=25))


@pytest.fixture
def data(setting: Setting) -> Rated:
    return rated(setting)


def test_a_user_s_loss_is_her_part_of_f(data: Rated) -> None:
    config = DpmfConfig(epsilon=1e4, rating_range=data.rating_range, **CHAIN)
    train = trimmed(data.train, most=10, seed=0)
    quarter = np.full(train.n_users, 0.25)
    weights = user_weights(train.counts, most=10, largest=1.0, budget_shares=quarter)
    model = sample_dpmf(arrange(train), config)
    found = personal.user_losses(model, train, config, weights)

    user = int(np.argmax(train.counts))
    total = 0.0
    for place in range(train.indptr[user], train.indptr[user + 1]):
        item = train.items[place]
        inner = float(model.users.factors[user] @ model.item_factors()[item])
        guess = model.mean + float(model.users.biases[user]) + float(model.item_biases()[item]) + inner
        total += (min(max(guess, 0.0), 6.0) - float(train.ratings[place])) ** 2
    assert found[user] == pytest.approx(min(1.0, 2.5 / train.counts[user]) * total, rel=1e-4)
    assert np.all(found <= config.bound / 4)


def test_section_6_7_and_theorem_2_print_the_paper_s_formulas(
    setting: Setting, data: Rated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(personal, "CHAIN", CHAIN)
    monkeypatch.setattr(personal, "_LAST", 2)
    with house_style():
        rule, levels = personal.section_6_7(setting), personal.theorem_2(setting)

    assert rule.numbers["rating_epsilon"]["250"] == pytest.approx(250 / 10)  # epsilon / tau
    bound = rule.numbers["over_epsilon"]["by her number of ratings, chain at epsilon 250"]
    own = rule.numbers["over_epsilon"]["by her loss, chain at epsilon 250"]
    assert bound["largest"] == pytest.approx(0.5)  # B_j = B: epsilon / 2
    assert own["median"] < bound["median"]
    assert own["largest"] <= bound["largest"]
    for level, share in personal.LEVELS.items():
        row = levels.numbers["by_share_of_the_budget"][level]
        assert row["epsilon by theorem 2"] == pytest.approx(personal.LEVEL_EPSILON * share / 2)
        assert row["epsilon that is enough"] == pytest.approx(row["epsilon by theorem 2"] / 2)
    assert sum(r["users"] for r in levels.numbers["by_share_of_the_budget"].values()) == data.train.n_users


TINY = exact.Tiny(points=5, largest=2.0, stars=(1.0, 2.0), kappa=2.0)


def density_by_hand(data: tuple[exact.Row, ...], epsilon: float) -> dict[tuple[float, ...], float]:
    """P(v) by adding up every (u_1, .., u_n, v) of Algorithm 1 that its condition lets through."""
    grid = np.linspace(-2.0, 2.0, 5)
    own = np.linspace(-2.0, 2.0, 20)
    bound = 2 * (2.0 - 1.0 + 2.0) ** 2
    found: dict[tuple[float, ...], float] = {}
    for v in product(grid, repeat=2):
        for users in product(own, repeat=len(data)):
            if not all(1.0 - 2.0 <= u * x <= 2.0 + 2.0 for u in users for x in v):
                continue
            loss = sum(
                (y - u * x) ** 2
                for u, row in zip(users, data, strict=True)
                for x, y in zip(v, row, strict=True)
                if y is not None
            )
            loss += 0.1 * (sum(u * u for u in users) + sum(x * x for x in v))
            found[v] = found.get(v, 0.0) + exp(-epsilon / (4 * bound) * loss)
    total = sum(found.values())
    return {v: p / total for v, p in found.items()}


def test_the_exact_density_is_that_of_algorithm_1_term_by_term() -> None:
    rows = TINY.rows()
    data = (rows[4], rows[2])
    by_hand = density_by_hand(data, 30.0)

    found = np.exp(TINY.log_density(TINY.log_factors(30.0), [4, 2], 30.0))

    for vector, probability in zip(TINY.items(), found, strict=True):
        assert probability == pytest.approx(by_hand.get(tuple(vector), 0.0), rel=1e-9)


def test_the_measured_epsilon_is_within_theorem_1_and_seen_by_hand_for_one_pair() -> None:
    epsilon = 30.0
    found = exact.measured(TINY, epsilon)
    rows = TINY.rows()
    one, other = (density_by_hand((rows[own], rows[2]), epsilon) for own in (4, 8))
    ratio = max(abs(log(one[v] / other[v])) for v in one)

    assert 0 < ratio <= found["ratings exchanged"] * (1 + 1e-9)
    assert found["ratings exchanged"] <= epsilon
    assert found["ratings added or removed"] <= epsilon / 2
    # Sampling again binds her row: without it the vectors are spread differently at any epsilon.
    small = exact.measured(TINY, 1e-6)
    assert small["ratings exchanged"] < 1e-6
    assert small["her row removed"] > 0.01


def test_a_problem_that_cannot_be_counted_is_refused(setting: Setting) -> None:
    with pytest.raises(InputError, match="cells of data, user and item values"):
        exact.Tiny(n_items=6)
    with house_style():
        found = exact.algorithm_1(setting, problem=TINY)
    assert set(found.numbers["over_epsilon"]) == {f"{e:g}" for e in exact.EPSILONS}
