"""What is public about made-up people: tables of whole numbers that say what they should."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from fedboard.common.kernels.backends import has_compiler
from fedboard.simulations.datasets import Kind, id_keys
from fedboard.simulations.datasets.synthetic.people import PeopleConfig, number_keys, words
from fedboard.simulations.datasets.synthetic.people.alias import UNIT, alias_table
from fedboard.simulations.datasets.synthetic.people.fitted import ML_1M
from fedboard.simulations.datasets.synthetic.people.tables import between, of_config


@settings(max_examples=60, deadline=None)
@given(weights=some.lists(some.integers(1, 1 << 22), min_size=1, max_size=50))
def test_a_table_draws_each_by_its_weight(weights: list[int]) -> None:
    given = np.array(weights, dtype=np.int64)

    keep, other = alias_table(given)
    drawn = keep.astype(np.float64) / UNIT
    np.add.at(drawn, other, 1 - keep / UNIT)

    assert drawn / given.size == pytest.approx(given / given.sum(), abs=1 / UNIT)


def test_a_straight_line_goes_through_its_knots() -> None:
    knots = ((0, 100), (1000, 50), (65536, 50))

    assert between(knots, np.array([0, 500, 1000, 65535])).tolist() == [100, 75, 50, 50]


def test_bells_have_their_moments() -> None:
    stream = words.streams_of(words.seed_word(0), 0, 200_000)
    bells = words.bell(words.word(stream, 1)).astype(np.float64)

    # Six standard errors of the mean, and of the deviation at a kurtosis of 2.7.
    assert abs(bells.mean()) < 6 * words.BELL_DEVIATION / np.sqrt(bells.size)
    assert bells.std() == pytest.approx(words.BELL_DEVIATION, rel=6 * np.sqrt(1.7 / 4 / bells.size))


def test_words_of_neighbours_share_nothing() -> None:
    streams = words.streams_of(words.seed_word(0), 0, 50_000)
    found = words.word(streams[:, None], np.arange(4, dtype=np.int64)[None, :])
    bits = np.unpackbits(found[:, :, None].view(np.uint8), axis=-1).mean(axis=0)

    assert np.unique(found).size == found.size
    assert np.abs(bits - 0.5).max() < 7 * 0.5 / np.sqrt(50_000)


def test_tastes_stay_whole_numbers_that_float32_adds_exactly() -> None:
    tables = of_config(PeopleConfig(users=1, items=3449), ML_1M)
    furthest = words.CENTRE * np.array(ML_1M.taste_spreads) // UNIT + 1

    assert np.array_equal(tables.taste, np.rint(tables.taste))
    assert float((np.abs(tables.taste).max(axis=0) * furthest).sum()) < 2**24


def test_popularity_falls_with_the_order_of_the_items() -> None:
    levels = np.arange(0, 65536, 16)

    assert (np.diff(between(ML_1M.popularity, levels)) <= 0).all()
    assert sorted(words.order_of_items(0, 500).tolist()) == list(range(500))


@pytest.mark.skipif(not has_compiler(), reason="numba is not installed")
@settings(max_examples=40, deadline=None)
@given(ids=some.lists(some.integers(0, 2**63 - 1), max_size=20))
def test_compiled_keys_of_whole_numbers_are_those_of_their_text(ids: list[int]) -> None:
    assert (
        number_keys.keys_of_integers(np.array(ids, dtype=np.int64)).tolist()
        == id_keys(ids, Kind.USER).tolist()
    )


def test_negative_ids_have_the_keys_of_their_text_too() -> None:
    assert number_keys.keys_of_integers(np.array([5, -5])).tolist() == id_keys([5, -5], Kind.USER).tolist()
    assert number_keys.keys_of_numbers(8, 5).tolist() == id_keys(range(8, 13), Kind.USER).tolist()
