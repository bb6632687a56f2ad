"""What holds for every model that is judged."""

import pickle

import numpy as np
import pytest

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.errors import InputError
from fedboard.common.kernels.backends import has_compiler
from fedboard.simulations.baselines.als import default_als, fit_als
from fedboard.simulations.baselines.means import (
    BiasConfig,
    LocalModel,
    Predictor,
    fit_bias,
    fit_item_mean,
    fit_popularity,
)

STARS = (1.0, 5.0)
EMPTY_USER = 4
BACKEND = "compiled" if has_compiler() else "numpy"
EXPLICIT = {
    "local-only": lambda train: LocalModel(n_items=train.n_items, rating_range=STARS),
    "item-mean": lambda train: fit_item_mean(train, rating_range=STARS),
    "bias": lambda train: fit_bias(train, BiasConfig(rating_range=STARS)),
    "als": lambda train: fit_als(
        train, default_als(Feedback.EXPLICIT, rating_range=STARS, rank=3, backend=BACKEND)
    ),
}
IMPLICIT = {
    "popularity": fit_popularity,
    "implicit-als": lambda train: fit_als(train, default_als(Feedback.IMPLICIT, rank=3, backend=BACKEND)),
}


@pytest.fixture(params=[*EXPLICIT, *IMPLICIT])
def case(request: pytest.FixtureRequest, ratings: Cohort, choices: Cohort) -> tuple[Predictor, Cohort]:
    if request.param in EXPLICIT:
        return EXPLICIT[request.param](ratings), ratings
    return IMPLICIT[request.param](choices), choices


def all_pairs(cohort: Cohort) -> tuple[np.ndarray, np.ndarray]:
    users, items = np.mgrid[: cohort.n_users, : cohort.n_items]
    return users.ravel().astype(np.int32), items.ravel().astype(np.int32)


def test_predictions_are_finite_float64_one_per_pair(case):
    model, history = case
    users, items = all_pairs(history)

    predicted = model.predict(history, users, items)

    assert predicted.dtype == np.float64
    assert predicted.shape == users.shape
    assert np.all(np.isfinite(predicted))


@pytest.mark.parametrize("name", EXPLICIT)
def test_predicted_stars_stay_in_the_public_range(name, ratings):
    extreme = Cohort(
        indptr=ratings.indptr,
        items=ratings.items,
        ratings=np.where(ratings.items % 2 == 0, 5.0, 1.0).astype(np.float32),
        n_items=ratings.n_items,
    )

    predicted = EXPLICIT[name](extreme).predict(extreme, *all_pairs(extreme))

    assert predicted.min() >= STARS[0]
    assert predicted.max() <= STARS[1]


def test_lists_hold_the_unknown_items_best_first(case):
    model, history = case
    users, items = all_pairs(history)

    lists = model.recommend(history, k=history.n_items)

    assert lists.dtype == np.int32
    scores = model.predict(history, users, items).reshape(history.n_users, -1)
    for user, row in enumerate(lists):
        own = history.items[history.indptr[user] : history.indptr[user + 1]]
        candidates = np.setdiff1d(np.arange(history.n_items), own)
        assert sorted(row[: candidates.size]) == candidates.tolist()
        assert np.all(row[candidates.size :] == -1)
        ranked = scores[user, row[: candidates.size]]
        # Clipping to the rating range can only tie what the ranking still tells apart.
        assert np.all(np.diff(ranked) <= 1e-6)


def test_what_a_user_gets_does_not_depend_on_who_else_is_asked(case):
    model, history = case
    users, items = all_pairs(history)
    predicted = model.predict(history, users, items).reshape(history.n_users, -1)
    lists = model.recommend(history, k=6)
    catalogue = np.arange(history.n_items, dtype=np.int32)

    for user in range(history.n_users):
        alone = history.rows(user, user + 1)
        np.testing.assert_array_equal(
            model.predict(alone, np.zeros_like(catalogue), catalogue), predicted[user]
        )
        np.testing.assert_array_equal(model.recommend(alone, k=6)[0], lists[user])


def test_user_without_history_is_served(case):
    model, history = case
    catalogue = np.arange(history.n_items, dtype=np.int32)

    predicted = model.predict(history, np.full_like(catalogue, EMPTY_USER), catalogue)

    assert history.counts[EMPTY_USER] == 0
    assert np.all(np.isfinite(predicted))
    assert set(model.recommend(history, k=18)[EMPTY_USER].tolist()) == set(catalogue.tolist())


def test_pickled_model_answers_the_same(case):
    model, history = case
    users, items = all_pairs(history)

    copy = pickle.loads(pickle.dumps(model))

    np.testing.assert_array_equal(copy.predict(history, users, items), model.predict(history, users, items))
    np.testing.assert_array_equal(copy.recommend(history, k=4), model.recommend(history, k=4))


def test_history_over_another_catalogue_is_refused(case):
    model, history = case
    other = Cohort(indptr=history.indptr, items=history.items, ratings=history.ratings, n_items=99)

    with pytest.raises(InputError, match="catalogue"):
        model.predict(other, np.zeros(1, np.int32), np.zeros(1, np.int32))
    with pytest.raises(InputError, match="catalogue"):
        model.recommend(other, k=3)


@pytest.mark.parametrize("name", ["item-mean", "bias", "als", "implicit-als"])
def test_nothing_to_learn_from_is_refused(name):
    none = np.zeros(0, np.int32)
    empty = cohort_from_triples(none, none, none.astype(np.float32), n_users=3, n_items=4)

    with pytest.raises(InputError, match="at least one training rating"):
        (EXPLICIT | IMPLICIT)[name](empty)
