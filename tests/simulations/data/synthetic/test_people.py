"""Made-up people: each is a function of the seed and her number, in whatever block and whoever else is there."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError, SettingError
from fedboard.simulations.data import find_data, is_made_up, load_ratings
from fedboard.simulations.data.synthetic.people import (
    PeopleConfig,
    PeopleStream,
    people_config,
    ratings_of_people,
)
from fedboard.simulations.problem import load_data
from fedboard.simulations.sections import DataConfig
from tests.simulations.data.synthetic import reference
from tests.simulations.data.test_splits import split_ratings

USERS = 300
SMALL = PeopleStream(config=PeopleConfig(users=USERS, items=400, mean=12))


@cache
def whole() -> Cohort:
    """All of them, made once."""
    return SMALL.read(0, USERS)


def same(one: Cohort, other: Cohort) -> bool:
    keys = one.user_keys is not None and other.user_keys is not None
    pairs = [(one.indptr, other.indptr), (one.items, other.items), (one.ratings, other.ratings)]
    return (
        keys
        and all(np.array_equal(a, b) for a, b in pairs)
        and np.array_equal(one.keys, other.keys)
        and one.first_row == other.first_row
    )


@settings(max_examples=30, deadline=None)
@given(cuts=some.lists(some.integers(0, USERS), max_size=6))
def test_people_are_the_same_over_any_cut(cuts: list[int]) -> None:
    edges = sorted({0, USERS, *cuts})

    for start, stop in itertools.pairwise(edges):
        assert same(SMALL.read(start, stop), whole().rows(start, stop))


@settings(max_examples=10, deadline=None)
@given(start=some.integers(0, 10**9), more=some.integers(0, 10**3))
def test_nobody_changes_when_there_are_more_people(start: int, more: int) -> None:
    few = PeopleStream(config=replace(SMALL.config, users=start + 3))
    many = PeopleStream(config=replace(SMALL.config, users=start + 3 + more))

    assert same(few.read(start, start + 3), many.read(start, start + 3))


def test_whoever_is_taken_out_moves_nobody_to_another_part() -> None:
    """The split is part of the mechanism: without her everybody else's training ratings are what they were."""
    ratings = ratings_of_people(SMALL)
    gone, kept = 17, ratings.users != 17
    without = replace(
        ratings, users=ratings.users[kept], items=ratings.items[kept], values=ratings.values[kept]
    )

    before, after = (split_ratings(one).train for one in (ratings, without))

    for row in (0, 16, 18, USERS - 1):
        assert np.array_equal(before.rows(row, row + 1).items, after.rows(row, row + 1).items)
    assert before.rows(gone, gone + 1).n_ratings > 0


@pytest.mark.parametrize(
    "config",
    [
        PeopleConfig(users=10**12, items=700, mean=20),
        PeopleConfig(users=10**12, items=5000, mean=4, minimum=1, seed=2**63 - 1),
        PeopleConfig(users=10**12, items=20, mean=5, seed=3),  # half the catalogue: some take the next best
    ],
)
def test_compiled_people_are_those_of_the_reference(config: PeopleConfig) -> None:
    stream, start = PeopleStream(config=config), 10**11
    found = stream.read(start, start + 60)
    tables = stream.tables
    items, ratings = np.empty_like(found.items), np.empty_like(found.ratings)

    reference.fill_rows(tables, start, found.indptr, items, ratings)

    assert np.array_equal(found.counts, reference.counts_of(tables, start, start + 60))
    assert np.array_equal(found.items, items)
    assert np.array_equal(found.ratings, ratings)


def test_no_two_people_have_one_key() -> None:
    keys = SMALL.read(0, USERS).keys
    others = replace(SMALL, config=replace(SMALL.config, seed=1)).read(0, USERS).keys

    assert len({*keys.tolist(), *others.tolist()}) == 2 * USERS
    assert np.unpackbits(keys.view(np.uint8)).mean() == pytest.approx(0.5, abs=0.02)


def test_people_are_like_those_they_were_fitted_to() -> None:
    """Bands around ml-1m's statistics: mean 165.5, 43 % on the top tenth, 57 % of the ratings 4 or 5 stars."""
    stream = PeopleStream(config=PeopleConfig(users=2000))
    people = stream.read(0, 2000)
    counts, popular = people.counts, np.sort(np.bincount(people.items, minlength=3449))[::-1]
    stars = np.bincount(people.ratings.astype(np.int64), minlength=6)[1:] / people.n_ratings

    assert counts.mean() == pytest.approx(165.5, rel=0.1)
    assert counts.min() == 20
    assert np.median(counts) == pytest.approx(96, rel=0.1)
    assert popular[:345].sum() / popular.sum() == pytest.approx(0.425, abs=0.03)
    assert popular[0] / 2000 == pytest.approx(0.57, abs=0.08)
    assert stars == pytest.approx([0.056, 0.107, 0.261, 0.349, 0.226], abs=0.04)


def test_a_source_says_who_they_are() -> None:
    config = people_config("synthetic:users=1e8,items=20000, mean=15")

    assert config == PeopleConfig(users=10**8, items=20_000, mean=15.0)
    assert people_config(config.text) == config
    assert "mean=15," in config.text
    odd = PeopleConfig(users=5, items=20_000, mean=165.53245)
    assert people_config(odd.text) == odd, "the name of some people is no other people's"
    assert people_config("synthetic:seed=9007199254740993").seed == 2**53 + 1
    assert is_made_up("synthetic:users=5")
    assert find_data("synthetic:users=5") == "synthetic:users=5"


def test_in_memory_they_are_the_same_people() -> None:
    source = "synthetic:users=300,items=400,mean=12"

    for ratings in (load_data(DataConfig(source=source)), load_ratings(source)):
        cohort = ratings.cohort()
        assert np.array_equal(cohort.items, whole().items)
        assert np.array_equal(cohort.ratings, whole().ratings)
        assert np.array_equal(cohort.keys, whole().keys)
        assert ratings.items_listed
        assert ratings.name == "synthetic:users=300,items=400,mean=12,seed=0"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("synthetic:", "'' must be KEY=NUMBER, such as synthetic:users=1e6"),
        ("synthetic:1e8", "'1e8' must be KEY=NUMBER"),
        (
            "synthetic:user=5",
            "unknown key 'user'; known are items, mean, minimum, seed, users; did you mean 'users'",
        ),
        ("synthetic:users=many", "users must be a number, got 'many'"),
        ("synthetic:users=1.5", "users must be a whole number, got a number"),
        ("synthetic:users=nan", "users must be a number, got 'nan'"),
        ("synthetic:users=0", r"users must be a whole number from 1 to 1e\+12, got 0"),
        ("synthetic:users=5,users=6", "users is given twice"),
        ("synthetic:items=10", r"items must be a whole number from 20 to 1e\+07, got 10"),
        ("synthetic:items=40,mean=20", r"mean must be from 1 to a quarter of the items \(10\), got 20"),
        ("synthetic:mean=inf", "mean must be a number, got 'inf'"),
        ("synthetic:mean=5,minimum=6", r"minimum must be a whole number from 1 to the mean \(5\), got 6"),
        ("synthetic:seed=-1", "seed must be a whole number from 0"),
    ],
)
def test_a_bad_source_is_one_sentence(source: str, said: str) -> None:
    with pytest.raises(SettingError, match=said) as error:
        DataConfig(source=source)

    assert "\n" not in str(error.value)


def test_more_than_memory_holds_is_refused_before_it_is_made() -> None:
    with pytest.raises(InputError, match="do not go into memory at once"):
        load_data(DataConfig(source="synthetic:users=1e9,mean=20"))


def test_whatever_decides_about_ratings_is_in_the_identity() -> None:
    known = {
        PeopleStream(config=PeopleConfig(**one)).identity
        for one in ({}, {"users": 5}, {"items": 50, "mean": 5}, {"mean": 9}, {"minimum": 3}, {"seed": 1})
    }

    assert len(known) == 6
    assert PeopleStream(config=PeopleConfig()).identity in known
