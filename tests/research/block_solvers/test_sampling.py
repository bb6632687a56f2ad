from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.algorithms.langevin.algorithm import user_weights
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.data import SyntheticConfig, synthetic_ratings
from research.block_solvers.factorisation import Factorisation, arrange
from research.block_solvers.sampling import (
    DpmfConfig,
    personal_epsilons,
    sample_dpmf,
    sampling_guarantee,
    trimmed,
)

RANGE = (1.0, 5.0)


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    people = SyntheticConfig(n_users=400, n_items=120, mean_ratings_per_user=25)
    return synthetic_ratings(people).cohort()


def sample(cohort: Cohort, **changed: object) -> Factorisation:
    settings: dict[str, object] = {
        "epsilon": 1e3,
        "rating_range": RANGE,
        "most_ratings": 20,
        "rank": 8,
        "passes": 10,
    }
    config = DpmfConfig(**(settings | changed))  # type: ignore[arg-type]
    return sample_dpmf(arrange(trimmed(cohort, most=config.most_ratings, seed=0)), config)


def test_trimming_keeps_at_most_tau_ratings_of_each_user_and_all_where_there_are_fewer(
    cohort: Cohort,
) -> None:
    kept = trimmed(cohort, most=7, seed=3)

    np.testing.assert_array_equal(kept.counts, np.minimum(cohort.counts, 7))
    np.testing.assert_array_equal(trimmed(cohort, most=10**6, seed=3).items, cohort.items)


@pytest.mark.parametrize("largest", [0.5, 1.0, 3.0, 100.0])
def test_no_user_adds_more_than_the_bound_to_the_loss(largest: float) -> None:
    config = DpmfConfig(epsilon=1.0, rating_range=RANGE, most_ratings=40, largest_weight=largest)
    counts = np.arange(41)
    weights = user_weights(counts, most=40, largest=largest)

    worst = counts * weights * config.largest_loss

    assert worst.max() <= config.bound * (1 + 1e-12)
    assert weights.max() <= largest
    if largest >= 1:
        assert worst.max() == pytest.approx(config.bound)
    # A weight that forgets to divide by the user's number of ratings breaks the bound.
    assert largest <= 1 or (counts * largest * config.largest_loss).max() > config.bound


def test_a_user_with_a_level_of_her_own_adds_her_share() -> None:
    counts, shares = np.array([3, 40, 40, 40]), np.array([0.1, 0.0, 0.25, 1.0])
    config = DpmfConfig(epsilon=8.0, rating_range=RANGE, most_ratings=40, largest_weight=10.0)

    weights = user_weights(counts, most=40, largest=10.0, budget_shares=shares)

    bounds = counts * weights * config.largest_loss
    assert np.all(bounds <= shares * config.bound * (1 + 1e-12))
    np.testing.assert_allclose(personal_epsilons(8.0, bounds, config.bound)[1:], [0.0, 1.0, 4.0])


def test_untrimmed_ratings_are_refused(cohort: Cohort) -> None:
    with pytest.raises(InputError, match="trim first"):
        sample_dpmf(arrange(cohort), DpmfConfig(epsilon=1.0, rating_range=RANGE, most_ratings=3))


def error(cohort: Cohort, **changed: object) -> float:
    predictor = sample(cohort, **changed).recommender(
        user_ridge=3.0, user_ridge_exponent=0.25, rating_range=RANGE
    )
    found = predictor.predict(cohort, cohort.user_of_entry(), cohort.items)
    return float(np.sqrt(np.mean((found - cohort.ratings) ** 2)))


def spread(cohort: Cohort, **changed: object) -> float:
    """Mean square of all coordinates over the prior's variance, where the ratings say nothing."""
    model = sample(cohort, epsilon=1e-9, precision=4.0, rank=32, passes=30, step=0.4, decay=0.0, **changed)
    rows = np.concatenate([model.items.factors.ravel(), model.users.factors.ravel()])
    return float(np.mean(rows.astype(float) ** 2) * 4.0)


def test_without_evidence_the_chain_stays_in_its_prior(cohort: Cohort) -> None:
    # 16 640 coordinates: 1 +- 0.011. Steps of finite length widen it by at most step / 4.
    assert -0.05 < spread(cohort) - 1.0 < 0.1 + 0.05


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_a_chain_that_is_too_cold_or_too_hot_is_noticed(cohort: Cohort, temperature: float) -> None:
    assert abs(spread(cohort, temperature=temperature) - 1.0) > 0.2


def test_one_seed_and_one_thread_give_the_same_bits(cohort: Cohort) -> None:
    first, again, other = sample(cohort), sample(cohort), sample(cohort, seed=1)

    np.testing.assert_array_equal(first.items.rows, again.items.rows)
    assert not np.array_equal(first.items.rows, other.items.rows)


@pytest.mark.slow
def test_two_threads_sample_as_well_as_one(cohort: Cohort) -> None:
    one, two = (error(cohort, threads=threads, epsilon=1e5, passes=30) for threads in (1, 2))
    assert abs(one - two) < 0.02


@pytest.mark.slow
def test_a_smaller_epsilon_learns_less(cohort: Cohort) -> None:
    none, some, much = (error(cohort, epsilon=e, passes=20, precision=5.0) for e in (1.0, 1e3, 1e5))
    assert none > some > much


def test_items_without_ratings_are_draws_of_the_prior(cohort: Cohort) -> None:
    widened = replace(cohort, n_items=cohort.n_items + 400)

    unrated = sample(widened, rank=16, precision=9.0, epsilon=1e4).item_factors()[-400:]

    assert abs(np.var(unrated) * 9.0 - 1.0) < 0.08


def test_the_guarantee_is_labelled_and_no_finite_step_is_claimed() -> None:
    found = sampling_guarantee(10.0, temperature=1.0, most_ratings=100, largest_weight=1.0)

    assert found.kind == "asymptotic"
    assert found.user_epsilon == 10.0
    assert found.rating_epsilon == pytest.approx(0.1)
    assert found.rating_presence
    assert found.finite_step_epsilon == np.inf
    assert found.record()["finite_step_epsilon"] is None
    assert "no finite epsilon is known" in found.statement


def test_a_cold_chain_is_read_as_what_it_samples_and_weights_that_count_ratings_void_their_reading() -> None:
    found = sampling_guarantee(250.0, temperature=0.07, most_ratings=100, largest_weight=10.0)

    assert found.user_epsilon == pytest.approx(250 / 0.07)
    assert found.rating_epsilon == pytest.approx(250 / 0.07 * 10 / 100)
    assert not found.rating_presence


@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0.0}, {"temperature": -1.0}, {"most_ratings": 0}, {"rating_range": (5.0, 1.0)}]
)
def test_settings_out_of_range_are_named(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        DpmfConfig(**({"epsilon": 1.0, "rating_range": RANGE} | wrong))  # type: ignore[arg-type]
