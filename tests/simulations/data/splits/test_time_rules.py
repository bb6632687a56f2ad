"""Splits by time: which part a rating falls into is what an obvious loop says, from its user's rows alone."""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.config import parse_config
from fedboard.simulations.data import Ratings, SyntheticConfig, id_keys, synthetic_ratings
from fedboard.simulations.data.id_keys import Kind
from fedboard.simulations.data.loading import ratings_of_columns
from fedboard.simulations.data.splits import RatingSplit, RatingSplitting, UserSplitting
from fedboard.simulations.data.splits.coins import SplitCoins
from fedboard.simulations.data.splits.times import ByDate, ByLast, TimeRule
from fedboard.simulations.problem import problem_of
from tests.simulations.data.test_splits import keys, keys_of, with_own_test

COINS = SplitCoins(3)


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    """Made-up ratings at few times, so that many are given at the same one."""
    made = synthetic_ratings(SyntheticConfig(n_users=200, n_items=60, mean_ratings_per_user=9))
    return replace(made, times=np.random.default_rng(0).integers(100, 108, made.n_ratings))


def split_ratings_by_time(ratings: Ratings, rule: TimeRule) -> RatingSplit:
    keys = id_keys(ratings.item_ids.tolist(), Kind.ITEM)
    return RatingSplitting(rule=rule).split(ratings.cohort(), keys, ratings.times)


def by_user(ratings: Ratings) -> dict[int, list[tuple[int, int, int]]]:
    """Each user's (time, coin, item), first to last."""
    words = COINS.of_ratings(
        ratings.user_keys(), id_keys(ratings.item_ids.tolist(), Kind.ITEM), ratings.users, ratings.items
    )
    assert ratings.times is not None
    found: dict[int, list[tuple[int, int, int]]] = {}
    rows = zip(
        ratings.users.tolist(), ratings.times.tolist(), words.tolist(), ratings.items.tolist(), strict=True
    )
    for user, time, word, item in rows:
        found.setdefault(user, []).append((time, word, item))
    return {user: sorted(rows) for user, rows in found.items()}


@pytest.mark.parametrize("count", [1, 5])
def test_the_last_ratings_of_each_user_are_tested_and_those_before_validate(
    ratings: Ratings, count: int
) -> None:
    split = split_ratings_by_time(ratings, ByLast(count=count, coins=COINS))

    test, validation, kept_all = set(), set(), 0
    for user, rows in by_user(ratings).items():
        if len(rows) > 2 * count:
            test |= {(user, item) for _, _, item in rows[-count:]}
            validation |= {(user, item) for _, _, item in rows[-2 * count : -count]}
        else:
            kept_all += 1
    assert keys_of(split.test) == test
    assert keys_of(split.validation) == validation
    assert keys(split.train) | validation == keys(split.train_and_validation)
    assert split.train.n_ratings + len(validation) + len(test) == ratings.n_ratings
    assert kept_all > 0 or count == 1


def test_ratings_fall_before_between_and_from_public_dates_on(ratings: Ratings) -> None:
    split = split_ratings_by_time(ratings, ByDate(test_from=106, validation_from=104))

    assert ratings.times is not None
    pairs = list(zip(ratings.users.tolist(), ratings.items.tolist(), strict=True))
    when = dict(zip(pairs, ratings.times.tolist(), strict=True))
    assert {when[pair] for pair in keys(split.train)} == {100, 101, 102, 103}
    assert {when[pair] for pair in keys_of(split.validation)} == {104, 105}
    assert {when[pair] for pair in keys_of(split.test)} == {106, 107}
    assert keys(split.train_and_validation) == {pair for pair in pairs if when[pair] < 106}


@pytest.mark.parametrize("rule", [ByLast(count=1, coins=COINS), ByDate(test_from=106, validation_from=104)])
def test_lists_are_judged_on_what_a_user_took_after_what_is_known(
    ratings: Ratings, rule: ByLast | ByDate
) -> None:
    splitting = UserSplitting(rule=rule, positive_above=2.5, minimum_positives=4)
    split = splitting.split(ratings.cohort(), id_keys(ratings.item_ids.tolist(), Kind.ITEM), ratings.times)

    liked = replace(
        ratings,
        **{
            name: getattr(ratings, name)[ratings.values > 2.5]
            for name in ("users", "items", "values", "times")
        },
    )
    theirs = {user: rows for user, rows in by_user(liked).items() if len(rows) >= 4}
    assert set(np.flatnonzero(split.train.counts)) <= set(theirs)
    for held_out, earlier in ((split.validation, split.train), (split.test, None)):
        for row, user in enumerate(held_out.users.tolist()):
            history = held_out.history.items[slice(*held_out.history.indptr[row : row + 2])].tolist()
            target = held_out.target.items[slice(*held_out.target.indptr[row : row + 2])].tolist()
            place = {item: number for number, (_, _, item) in enumerate(theirs[user])}
            assert history
            assert target
            assert max(place[item] for item in history) < min(place[item] for item in target)
            assert (
                earlier is None or history == earlier.items[slice(*earlier.indptr[user : user + 2])].tolist()
            )
    assert split.test.users.size > 50
    if isinstance(rule, ByLast):
        assert split.test.users.tolist() == sorted(theirs)
        assert split.test.target.counts.tolist() == [1] * len(theirs)


def test_ties_are_broken_by_coins_whatever_the_order_of_the_rows() -> None:
    rng = np.random.default_rng(1)
    users, items = np.repeat(np.arange(30), 8), np.tile(np.arange(8), 30)
    orders = [np.arange(240), rng.permutation(240)]

    tested = [
        keys_of(
            split_ratings_by_time(
                ratings_of_columns(users[o], items[o], np.ones(240), np.full(240, 7), rating_range=(1, 5)),
                ByLast(count=1, coins=COINS),
            ).test
        )
        for o in orders
    ]

    assert tested[0] == tested[1]
    assert len({item for _, item in tested[0]}) > 3  # a coin of each rating, not the item's number


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"folds": 5, "leave_last": 1}, "split.folds and split.leave_last each say what is held out"),
        ({"test_from": 106, "leave_last": 1}, "split.test_from and split.leave_last each say"),
        ({"validation_from": 100}, "split.validation_from needs split.test_from"),
        ({"test_from": 100, "validation_from": 106}, "must not be later than split.test_from"),
        (
            {"test_from": "80%"},
            r"must be a date such as 2005-12-01.*one user more would move the ratings of all",
        ),
        ({"test_from": 0.8}, "got 0.8. A share of all ratings is not taken"),
        ({"test_from": "2005-13-01"}, "must be a date such as 2005-12-01"),
        ({"leave_last": 0}, "split.leave_last must be >= 1, got 0"),
    ],
)
def test_rules_that_there_are_not_are_refused(
    ratings: Ratings, split: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        problem_of(ratings, parse_config({"split": split}))


def test_data_without_times_or_with_a_test_part_are_refused(ratings: Ratings) -> None:
    config = parse_config({"split": {"leave_last": 1}})

    with pytest.raises(InputError, match="does not say when anything was rated"):
        problem_of(replace(ratings, times=None), config)
    with pytest.raises(InputError, match="brings a test part of its own, so it is not split by time"):
        problem_of(with_own_test(ratings), config)
