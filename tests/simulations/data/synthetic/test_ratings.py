import hashlib
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fedboard.simulations.data import Ratings, SyntheticConfig, synthetic_ratings, synthetic_truth

SMALL = SyntheticConfig(n_users=3_000, n_items=500, mean_ratings_per_user=60, seed=5)


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return synthetic_ratings(SMALL)


def test_ratings_are_sorted_unique_whole_stars(ratings):
    keys = ratings.users.astype(np.int64) * ratings.n_items + ratings.items

    assert (np.diff(keys) > 0).all()
    assert_array_equal(np.unique(ratings.values), [1, 2, 3, 4, 5])
    assert ratings.rating_range == (1.0, 5.0)
    assert (ratings.users.dtype, ratings.items.dtype, ratings.values.dtype) == (
        np.int32,
        np.int32,
        np.float32,
    )


def test_biases_explain_a_part_like_that_of_movielens(ratings):
    """MovieLens 1M: standard deviation 1.12, item mean 0.98, with user bias 0.91."""
    values = ratings.values.astype(float)
    by_item = np.bincount(ratings.items, values) / np.bincount(ratings.items)
    left = values - by_item[ratings.items]
    by_user = np.bincount(ratings.users, left) / np.bincount(ratings.users)

    assert 1.05 < values.std() < 1.2
    assert 0.92 < left.std() < 1.02
    assert 0.8 < (left - by_user[ratings.users]).std() < 0.92


@pytest.mark.parametrize("n_users", [1, 255, 256, 700, 2_999])
def test_a_user_rates_the_same_however_many_others_there_are(n_users, ratings):
    fewer = synthetic_ratings(replace(SMALL, n_users=n_users))

    theirs = slice(0, fewer.n_ratings)
    assert ratings.users[fewer.n_ratings] == n_users
    assert_array_equal(fewer.users, ratings.users[theirs])
    assert_array_equal(fewer.items, ratings.items[theirs])
    assert_array_equal(fewer.values, ratings.values[theirs])
    assert (fewer.titles, fewer.item_ids.tolist()) == (ratings.titles, ratings.item_ids.tolist())


def test_a_set_is_what_it_was_when_each_draw_was_searched_for():
    """Made by the version before tables were looked up: results that were published name a seed alone."""
    made = synthetic_ratings(SyntheticConfig(n_users=700, n_items=60, mean_ratings_per_user=15, seed=3))
    told = hashlib.sha256(made.users.tobytes() + made.items.tobytes() + made.values.tobytes())

    assert told.hexdigest()[:16] == "f031ad3dabec8d47"


def test_the_truth_behind_the_ratings_can_be_asked_for(ratings: Ratings) -> None:
    truth = synthetic_truth(SMALL)

    expected = truth.expected(ratings.users, ratings.items)

    assert truth.user_taste.shape == (SMALL.n_users, truth.item_taste.shape[1])
    errors = ratings.values - np.clip(expected, 1.0, 5.0)
    constant = ratings.values - ratings.values.mean()
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(
        0.86, abs=0.05
    )  # noise, rounding, the ends of the scale
    assert np.mean(errors**2) < 0.7 * np.mean(constant**2)
