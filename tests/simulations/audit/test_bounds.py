"""Lower bounds on mu: they cover the truth as often as they say, and notice what is above it."""

import numpy as np
import pytest
from scipy import stats

from fedboard.simulations.audit.statistics import (
    LARGEST_MU,
    estimate,
    proportion_at_least,
    sharp_bound,
    split_bound,
)

N_CANARIES, N_GAMES = 600, 200
MANY = 18
"""Of 200 games at a nominal rate of 5 %: exceeded with probability 0.5 %."""
TRUE_MU = (0.0, 0.27, 1.12, 3.45)


def game(mu: float, seed: int, *, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    present = rng.random(N_CANARIES) < 0.5
    return mu * present + noise * rng.standard_normal(N_CANARIES), present


@pytest.mark.parametrize("mu", TRUE_MU)
def test_the_sharp_bound_exceeds_the_truth_at_its_nominal_rate(mu: float) -> None:
    above = sum(sharp_bound(*game(mu, seed), confidence=0.95) > mu for seed in range(N_GAMES))

    assert above <= MANY


@pytest.mark.parametrize("mu", TRUE_MU)
def test_the_bound_by_counting_exceeds_the_truth_at_most_at_its_nominal_rate(mu: float) -> None:
    rng = np.random.default_rng(0)
    above = sum(split_bound(*game(mu, seed), confidence=0.95, rng=rng) > mu for seed in range(0, N_GAMES, 3))

    assert above <= MANY // 3


def test_where_nothing_is_released_the_bound_by_counting_is_zero_and_its_absolute_value_is_not() -> None:
    def with_absolute_value(scores: np.ndarray, present: np.ndarray) -> float:
        """The published mistake: the largest |PhiInv(TPR) - PhiInv(FPR)| of two bounds that point elsewhere."""
        cuts = np.quantile(scores, np.linspace(0.01, 0.99, 99))[:, None]
        hits, passes = ((scores >= cuts) & present).sum(axis=1), ((scores < cuts) & ~present).sum(axis=1)
        misses = 1 - proportion_at_least(hits, int(present.sum()), 0.975)
        false = 1 - proportion_at_least(passes, int((~present).sum()), 0.975)
        shown = np.abs(stats.norm.isf(false) - stats.norm.ppf(misses))
        return float(shown[np.isfinite(shown)].max())

    games = [game(0.0, seed) for seed in range(20)]
    rng = np.random.default_rng(1)

    assert all(split_bound(*played, confidence=0.95, rng=rng) == 0.0 for played in games)
    assert all(with_absolute_value(*played) > 0.3 for played in games)


@pytest.mark.parametrize("mu", [1.12, 3.45])
def test_noise_that_is_a_fifth_too_small_shows(mu: float) -> None:
    scores, present = game(mu, 5, noise=0.8)

    assert sharp_bound(scores, present, confidence=0.95) > mu


def test_the_sharp_bound_is_what_the_noncentral_t_distribution_says() -> None:
    scores, present = game(1.12, 3)
    n_inside, n_outside = int(present.sum()), int((~present).sum())
    factor = np.sqrt(1 / n_inside + 1 / n_outside)
    found = estimate(scores, present) / factor

    bound = sharp_bound(scores, present, confidence=0.95)

    assert stats.nct.sf(found, present.size - 2, bound / factor) == pytest.approx(0.05, abs=0.005)


def test_the_estimate_is_a_pooled_two_sample_t_statistic() -> None:
    scores, present = game(1.12, 3)
    t = stats.ttest_ind(scores[present], scores[~present]).statistic

    assert estimate(scores, present) == pytest.approx(t * np.sqrt(1 / present.sum() + 1 / (~present).sum()))


@pytest.mark.parametrize("present", [np.zeros(10, dtype=bool), np.arange(10) == 3])
def test_one_sided_games_show_nothing(present: np.ndarray) -> None:
    scores = np.arange(10.0)

    assert sharp_bound(scores, present, confidence=0.95) == 0.0
    assert split_bound(scores, present, confidence=0.95, rng=np.random.default_rng(0)) == 0.0


def test_scores_without_any_spread_show_nothing_or_everything() -> None:
    present = np.arange(40) % 2 == 0

    assert sharp_bound(np.ones(40), present, confidence=0.95) == 0.0
    assert sharp_bound(present.astype(float), present, confidence=0.95) > 0.5 * LARGEST_MU


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (3, 10), (10, 10), (240, 300)])
def test_proportions_are_bounded_as_scipy_does(hits: int, trials: int) -> None:
    interval = stats.binomtest(hits, trials, alternative="greater").proportion_ci(0.975, method="exact")

    assert proportion_at_least(np.array([hits]), trials, 0.975) == pytest.approx(interval.low)
