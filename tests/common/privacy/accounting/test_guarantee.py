"""What follows for one rating and for several users: each claim against a distribution that is integrated here."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from fedboard.common.arrays import FloatArray
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.budget import Budget, budget_implied
from fedboard.common.privacy.accounting.exact import (
    compose,
    epsilon_of,
    epsilon_of_events,
    epsilon_when_adaptive,
)
from fedboard.common.privacy.accounting.guarantee import (
    group_epsilon,
    implied_by,
    implied_sentences,
    rating_epsilon,
)
from fedboard.common.privacy.adjacency import Adjacency
from tests.common.privacy.exact_curves import gaussian, gaussian_epsilon, laplace, sampled, smallest_epsilon

DELTA = 1e-5
PLACES = np.linspace(-12, 14, 100_001)


def mixture(weights: dict[float, float]) -> FloatArray:
    """Density, on ``PLACES``, of a Gaussian of deviation 1 whose mean has these probabilities."""
    return sum((part * norm.pdf(PLACES - mean) for mean, part in weights.items()), np.zeros(PLACES.size))


def delta_between(epsilon: float, first: FloatArray, second: FloatArray) -> float:
    """Hockey-stick divergence by integration."""
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * (PLACES[1] - PLACES[0]))


def exact_epsilon(first: FloatArray, second: FloatArray, delta: float) -> float:
    ways = ((first, second), (second, first))
    return max(smallest_epsilon(lambda e, way=way: delta_between(e, *way), delta) for way in ways)


def test_k_users_together_have_k_mu_exactly():
    events = [gaussian(z) for z in (5.0, 8.0, 13.0)]
    mu = compose([5.0, 8.0, 13.0])

    for n_users in (2, 3, 7):
        exact = gaussian_epsilon(DELTA, n_users * mu)

        assert exact <= group_epsilon(events, DELTA, n_users=n_users) <= exact + 1e-9
    assert group_epsilon(events, DELTA, n_users=1) == epsilon_of_events(events, DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("probability", [0.05, 0.3])
def test_two_users_with_coins_of_their_own_are_covered(probability):
    both = {
        0.0: (1 - probability) ** 2,
        1.0: 2 * probability * (1 - probability),
        2.0: probability**2,
    }

    claimed = group_epsilon([sampled(1.0, probability=probability)], 1e-3, n_users=2)

    assert exact_epsilon(mixture(both), mixture({0.0: 1.0}), 1e-3) < claimed
    assert claimed < epsilon_of(1e-3, mu=2.0)


@pytest.mark.slow
@pytest.mark.parametrize("probability", [0.05, 0.3])
def test_one_rating_of_a_user_who_is_sampled_is_covered(probability):
    before = mixture({0.0: 1 - probability, 1.0: probability})
    after = mixture({0.0: 1 - probability, -1.0: probability})

    claimed = rating_epsilon([sampled(1.0, probability=probability)], 1e-3)

    assert exact_epsilon(before, after, 1e-3) < claimed


def test_one_rating_is_a_change_of_a_row_and_costs_more_than_presence_under_add_remove():
    signed, same_sign = gaussian(6.0), gaussian(9.0, same_sign=True)

    found = rating_epsilon([signed, same_sign], DELTA)

    mu = math.sqrt((2 / 6.0) ** 2 + (math.sqrt(2) / 9.0) ** 2)
    assert found == pytest.approx(gaussian_epsilon(DELTA, mu), rel=1e-9)
    assert epsilon_of_events([signed, same_sign], DELTA) < found
    assert found < group_epsilon([signed, same_sign], DELTA, n_users=2)


@pytest.mark.slow
def test_under_replace_one_rating_has_the_guarantee_of_the_row():
    events = [gaussian(6.0, adjacency="replace"), laplace(20.0, adjacency="replace")]

    assert rating_epsilon(events, DELTA) == epsilon_of_events(events, DELTA)
    budget = Budget(epsilon=epsilon_when_adaptive(events, DELTA), delta=DELTA, adjacency=Adjacency.REPLACE)
    kept = budget_implied(budget, DELTA)  # without a plan the budget is all that holds
    assert kept.rating_epsilon == budget.epsilon > rating_epsilon(events, DELTA)


def test_one_rating_can_move_all_rows_of_its_user():
    """Why neither mu nor a share of it is promised for one rating under add-remove."""
    board = np.array([[1.0, 0.0], [1.0, 0.0]])
    weights = np.array([0.999, 0.0447])  # adaptive: the rare item has nearly all of the weight
    assert weights @ weights <= 1

    def contribution(second_rating: float) -> np.ndarray:
        ratings = np.array([1.0, second_rating])
        solved = np.linalg.solve(board.T @ board + 0.1 * np.eye(2), board.T @ ratings)
        vector = solved / max(1.0, np.linalg.norm(solved))
        return (weights * np.clip(ratings, -1, 1))[:, None] * vector

    assert np.linalg.norm(contribution(5.0)) <= 1
    moved = np.linalg.norm(contribution(5.0) - contribution(-5.0))
    assert moved > 1.9  # the bound is 1: presence alone would promise at most 1
    assert moved <= 2


def test_sentences_say_the_numbers_and_no_more():
    events = [gaussian(10.0)]
    implied = implied_by(events, DELTA)

    for adjacency, step in (("add-remove", "a removal and an addition"), ("replace", "her whole row")):
        rating, pair = implied_sentences(implied, adjacency)
        assert repr(implied.rating_epsilon) in rating
        assert step in rating
        assert "is not promised" in rating
        assert repr(implied.pair_epsilon) in pair


def test_nothing_released_implies_everything():
    assert implied_by([], DELTA).rating_epsilon == implied_by([], DELTA).pair_epsilon == 0.0


@pytest.mark.parametrize("number", [0, -1, 1.5, True])
def test_numbers_of_users_or_ratings_must_be_whole(number):
    with pytest.raises(PrivacyError, match="whole number >= 1"):
        group_epsilon([gaussian(3.0)], DELTA, n_users=number)


def test_releases_of_two_adjacencies_have_no_common_statement():
    with pytest.raises(PrivacyError, match="different adjacencies"):
        rating_epsilon([gaussian(3.0), gaussian(3.0, adjacency="replace")], DELTA)
