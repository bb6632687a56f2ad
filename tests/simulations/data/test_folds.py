"""Folds: every rating, or user, is tested in one of k, exactly, by her own coins."""

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.config import parse_config
from fedboard.simulations.data import Ratings, SyntheticConfig, synthetic_ratings
from fedboard.simulations.data.splits.coins import Fold
from fedboard.simulations.problem import problem_of
from tests.simulations.data.test_splits import keys, keys_of, split_ratings


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return synthetic_ratings(SyntheticConfig(n_users=300, n_items=100, mean_ratings_per_user=20))


@pytest.mark.parametrize("of", [2, 3, 7])
def test_every_coin_is_in_one_fold_at_the_very_edges_too(of: int) -> None:
    edges = [number * 2**64 // of + step for number in range(of) for step in (-1, 0, 1)]
    words = np.array([edge % 2**64 for edge in edges] + [2**64 - 1, 2**63], dtype=np.uint64)

    found = [Fold(number=number, of=of).held_out(words, validation=0.1) for number in range(of)]

    assert np.sum([test for test, _ in found], axis=0).tolist() == [1] * words.size
    for number, (test, _) in enumerate(found):
        slow = [number * 2**64 // of <= int(word) < (number + 1) * 2**64 // of for word in words]
        assert test.tolist() == slow


def test_each_rating_is_tested_once_and_learnt_from_in_all_other_folds(ratings: Ratings) -> None:
    splits = [split_ratings(ratings, seed=1, validation=0.1, folds=5, fold=number) for number in range(5)]

    tested = [keys_of(split.test) for split in splits]
    assert sum(map(len, tested)) == ratings.n_ratings == len(set.union(*tested))
    for split, test in zip(splits, tested, strict=True):
        assert not test & keys(split.train_and_validation)
        assert keys(split.train) | keys_of(split.validation) == keys(split.train_and_validation)
        assert len(test) + split.train_and_validation.n_ratings == ratings.n_ratings
        assert abs(len(test) - ratings.n_ratings / 5) <= 6 * np.sqrt(ratings.n_ratings * 0.16)
        assert abs(split.validation.n_ratings - ratings.n_ratings / 10) <= 6 * np.sqrt(
            ratings.n_ratings * 0.09
        )


def test_each_user_is_held_out_for_the_test_once(ratings: Ratings) -> None:
    folds = [{"seed": 1, "positive_above": 2.5, "folds": 4, "fold": number} for number in range(4)]
    splits = [
        problem_of(ratings, parse_config({"feedback": "implicit", "split": fold})).split for fold in folds
    ]

    tested = np.concatenate([split.test.users for split in splits])
    eligible = np.bincount(ratings.users[ratings.values > 2.5], minlength=ratings.n_users) >= 5
    assert np.sort(tested).tolist() == np.flatnonzero(eligible).tolist()
    for split in splits:
        assert not split.train.counts[split.test.users].any()
        assert not split.train.counts[split.validation.users].any()
        assert not np.intersect1d(split.test.users, split.validation.users).size


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"folds": 1}, "split.folds must be >= 2, got 1"),
        ({"folds": 5, "fold": 5}, r"split.fold must be in 0\.\.4, since there are 5 folds, got 5"),
        ({"folds": 5, "fold": -1}, r"split.fold must be in 0\.\.4"),
        ({"fold": 2}, "split.fold = 2 says which fold, but not of how many"),
        ({"folds": 2, "validation": 0.5}, "must be >= 0 and add up to less than 1"),
    ],
)
def test_folds_that_there_are_not_are_refused(ratings: Ratings, split, message: str) -> None:
    with pytest.raises(InputError, match=message):
        problem_of(ratings, parse_config({"data": {"source": "synthetic"}, "split": split}))
