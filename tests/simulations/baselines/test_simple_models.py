"""The models without factors, against numbers one can check by hand and dense solutions."""

import numpy as np
import pytest

from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.baselines.means import (
    BiasConfig,
    LocalModel,
    fit_bias,
    fit_item_mean,
    fit_popularity,
)

STARS = (1.0, 5.0)


def small() -> Cohort:
    """Three users: ratings 5 1 of items 0 1, 4 of item 0, and nothing; mean 10/3."""
    return Cohort(
        indptr=np.array([0, 2, 3, 3]),
        items=np.array([0, 1, 0], np.int32),
        ratings=np.array([5, 1, 4], np.float32),
        n_items=3,
    )


def test_item_mean_shares_its_ratings_with_the_global_mean():
    model = fit_item_mean(small(), rating_range=STARS)

    mean = 10 / 3
    expected = [(9 + 5 * mean) / 7, (1 + 5 * mean) / 6, mean]
    np.testing.assert_allclose(model.item_means, expected, rtol=1e-12)


def test_popularity_ranks_by_count_and_leaves_out_the_history():
    lists = fit_popularity(small()).recommend(small(), k=2)

    assert lists.tolist() == [[2, -1], [1, 2], [0, 1]]


def test_local_model_knows_only_the_users_own_mean():
    model = LocalModel(n_items=3, rating_range=STARS)

    predicted = model.predict(small(), np.array([0, 1, 2], np.int32), np.array([2, 2, 0], np.int32))

    assert predicted.tolist() == pytest.approx([3.0, 3.0 + 1 / 3, 3.0])


def test_biases_are_those_of_one_dense_ridge_regression(ratings):
    config = BiasConfig(rating_range=STARS, user_ridge=3.0, item_ridge=1.5, sweeps=200)

    model = fit_bias(ratings, config)

    n_users, n_items = ratings.n_users, ratings.n_items
    design = np.zeros((ratings.n_ratings, n_users + n_items))
    design[np.arange(ratings.n_ratings), ratings.user_of_entry()] = 1.0
    design[np.arange(ratings.n_ratings), n_users + ratings.items] = 1.0
    ridge = np.diag(np.repeat([3.0, 1.5], [n_users, n_items]))
    centred = ratings.ratings - np.mean(ratings.ratings, dtype=np.float64)
    both = np.linalg.solve(design.T @ design + ridge, design.T @ centred)
    np.testing.assert_allclose(model.item_biases, both[n_users:], rtol=0, atol=1e-6)
    np.testing.assert_allclose(model.fit_local(ratings), both[:n_users], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LocalModel(n_items=3, rating_range=(5.0, 1.0)), "rating_range"),
        (lambda: BiasConfig(rating_range=(1.0, 1.0)), "rating_range"),
        (lambda: BiasConfig(rating_range=STARS, user_ridge=0.0), "user_ridge"),
        (lambda: BiasConfig(rating_range=STARS, sweeps=0), "sweeps"),
    ],
)
def test_option_out_of_range_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
