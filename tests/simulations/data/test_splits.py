from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.config import parse_config
from fedboard.simulations.data import (
    Kind,
    Ratings,
    SyntheticConfig,
    Triples,
    id_keys,
    load_ratings,
    synthetic_ratings,
)
from fedboard.simulations.data.splits import HeldOut, RatingSplit, SplitRule, UserSplit, UserSplitting
from fedboard.simulations.data.splits.coins import SplitCoins
from fedboard.simulations.problem import problem_of

HISTORY = 0.8


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return synthetic_ratings(SyntheticConfig(n_users=400, n_items=200, mean_ratings_per_user=30))


def split_ratings(ratings: Ratings, **settings: object) -> RatingSplit:
    """As a run with these settings splits them."""
    split = problem_of(ratings, parse_config({"split": settings, "privacy": {"noise": "secure"}})).split
    assert isinstance(split, RatingSplit)
    return split


def split_users(
    ratings: Ratings, *, seed: int, validation: float = 0.1, test: float = 0.1, **more: object
) -> UserSplit:
    """Users held out by coins, at other shares than a run has, too."""
    rule = SplitRule(coins=SplitCoins(seed), validation=validation, test=test)
    splitting = UserSplitting(rule=rule, **more)  # type: ignore[arg-type]
    return splitting.split(ratings.cohort(), id_keys(ratings.item_ids.tolist(), Kind.ITEM))


def with_own_test(ratings: Ratings) -> Ratings:
    test = Triples(users=np.zeros(1, np.int32), items=np.full(1, 3, np.int32), values=np.ones(1, np.float32))
    return replace(ratings, test=test)


def keys(cohort: Cohort) -> set[tuple[int, int]]:
    return set(zip(cohort.user_of_entry().tolist(), cohort.items.tolist(), strict=True))


def keys_of(triples: Triples) -> set[tuple[int, int]]:
    return set(zip(triples.users.tolist(), triples.items.tolist(), strict=True))


def same(first: Cohort, second: Cohort) -> bool:
    return all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in ("indptr", "items", "ratings")
    )


def near(number: int, of: int, share: float) -> bool:
    """Within 6 standard deviations of a binomial: a false alarm in 5e8 splits."""
    return abs(number - share * of) <= 6 * np.sqrt(of * share * (1 - share))


@pytest.mark.slow
def test_rating_split_has_the_expected_shares_and_loses_nothing(ratings):
    split = split_ratings(ratings, seed=1, validation=0.1, test=0.2)

    assert near(split.validation.n_ratings, ratings.n_ratings, 0.1)
    assert near(split.test.n_ratings, ratings.n_ratings, 0.2)
    parts = keys(split.train), keys_of(split.validation), keys_of(split.test)
    assert sum(map(len, parts)) == ratings.n_ratings
    assert set.union(*parts) == keys(ratings.cohort())
    assert keys(split.train_and_validation) == parts[0] | parts[1]


def test_rating_split_keeps_values_with_their_pairs(ratings):
    value = dict(
        zip(zip(ratings.users.tolist(), ratings.items.tolist(), strict=True), ratings.values, strict=True)
    )

    split = split_ratings(ratings, seed=1)

    for triples in (split.validation, split.test):
        pairs = zip(triples.users.tolist(), triples.items.tolist(), strict=True)
        assert [value[pair] for pair in pairs] == triples.values.tolist()
    train = split.train
    pairs = zip(train.user_of_entry().tolist(), train.items.tolist(), strict=True)
    assert [value[pair] for pair in pairs] == train.ratings.tolist()


def test_own_test_part_is_kept_and_validation_is_off_by_default(ratings):
    own = with_own_test(ratings)

    split = split_ratings(own, seed=0)
    validated = split_ratings(own, seed=0, validation=0.1, test=0.3)

    assert split.test is own.test
    assert same(split.train, ratings.cohort())
    assert split.validation.n_ratings == 0
    assert split.train_and_validation is split.train
    assert validated.test is own.test
    assert near(validated.validation.n_ratings, ratings.n_ratings, 0.1)
    assert validated.validation.n_ratings + validated.train.n_ratings == ratings.n_ratings
    assert validated.train_and_validation.n_ratings == ratings.n_ratings


@pytest.mark.parametrize(("validation", "test"), [(-0.1, 0.1), (0.5, 0.5), (0.1, 1.0), (float("nan"), 0.1)])
def test_shares_that_leave_nothing_are_refused(validation, test, ratings):
    with pytest.raises(InputError, match="the shares of validation and test must be >= 0"):
        split_ratings(ratings, seed=0, validation=validation, test=test)


def test_splits_do_not_depend_on_the_order_of_rows(tmp_path):
    rng = np.random.default_rng(0)
    pairs = rng.permutation(600)[:300]
    rows = [f"u{pair // 30},i{pair % 30},{1 + pair % 5}" for pair in pairs.tolist()]
    loaded = []
    for number, order in enumerate((np.arange(300), rng.permutation(300))):
        path = tmp_path / f"{number}.csv"
        path.write_text("\n".join(["user,item,rating", *(rows[row] for row in order)]))
        loaded.append(load_ratings(path, rating_range=(1, 5)))

    over_ratings = [split_ratings(ratings, seed=2) for ratings in loaded]
    over_users = [split_users(ratings, seed=2, validation=0.15, test=0.2) for ratings in loaded]

    assert same(over_ratings[0].train, over_ratings[1].train)
    assert keys_of(over_ratings[0].test) == keys_of(over_ratings[1].test)
    assert same(over_users[0].train, over_users[1].train)
    assert same(over_users[0].test.target, over_users[1].test.target)


def positives(ratings: Ratings) -> list[set[int]]:
    liked: list[set[int]] = [set() for _ in range(ratings.n_users)]
    for user, item, value in zip(ratings.users, ratings.items, ratings.values, strict=True):
        if value > 3.5:
            liked[user].add(int(item))
    return liked


def rows(cohort: Cohort) -> list[set[int]]:
    return [set(cohort.rows(row, row + 1).items.tolist()) for row in range(cohort.n_users)]


def test_user_split_holds_out_whole_users(ratings):
    split = split_users(ratings, seed=0, validation=0.08, test=0.12)

    validation, test = set(split.validation.users.tolist()), set(split.test.users.tolist())
    learning = set(np.flatnonzero(split.train.counts).tolist())
    eligible = {user for user, liked in enumerate(positives(ratings)) if len(liked) >= 5}
    assert near(len(validation), len(eligible), 0.08)
    assert near(len(test), len(eligible), 0.12)
    assert not validation & test
    assert not (validation | test) & learning
    assert validation | test | learning == eligible
    assert split.train.n_users == ratings.n_users


def assert_divides(held_out: HeldOut, liked: list[set[int]]) -> None:
    assert (np.diff(held_out.users) > 0).all()
    for user, known, hidden in zip(
        held_out.users, rows(held_out.history), rows(held_out.target), strict=True
    ):
        assert not known & hidden
        assert known | hidden == liked[user]
        assert len(hidden) == max(1, int((1 - HISTORY) * len(liked[user]) + 1e-9))


def test_held_out_users_are_divided_into_history_and_target(ratings):
    split = split_users(ratings, seed=0, validation=0.08, test=0.12, history=HISTORY)

    assert_divides(split.validation, positives(ratings))
    assert_divides(split.test, positives(ratings))
    assert set(split.test.target.ratings.tolist()) == {1.0}


def test_one_user_less_moves_nobody_else(ratings):
    kept = ratings.users != 0
    fewer = replace(
        ratings,
        users=ratings.users[kept] - 1,
        items=ratings.items[kept],
        values=ratings.values[kept],
        user_ids=ratings.user_ids[1:],
    )

    splits = [(each, split_users(each, seed=2, validation=0.15, test=0.2)) for each in (ratings, fewer)]

    for part in ("validation", "test"):
        whole, less = ({str(each.user_ids[u]) for u in getattr(split, part).users} for each, split in splits)
        assert whole - {str(ratings.user_ids[0])} == less


def test_history_and_target_stay_non_empty_at_extreme_shares(ratings):
    for history in (0.01, 0.99):
        split = split_users(ratings, seed=0, validation=0.05, test=0.05, history=history, minimum_positives=2)

        assert split.test.history.counts.min() >= 1
        assert split.test.target.counts.min() >= 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"validation": 0.0}, "shares of validation and test > 0"),
        ({"test": -0.1}, "shares of validation and test must be >= 0"),
        ({"test": float("nan")}, "add up to less than 1"),
        ({"validation": 0.5, "test": 0.5}, "add up to less than 1"),
        ({"history": 1.0}, "0 < history < 1"),
        ({"minimum_positives": 1}, "minimum_positives >= 2"),
        ({"seed": -1}, "the seed of a split must be >= 0"),
    ],
)
def test_user_split_out_of_range_is_refused(change, expected, ratings):
    arguments = {"seed": 0, "validation": 0.08, "test": 0.12} | change

    with pytest.raises(InputError, match=expected):
        split_users(ratings, **arguments)
