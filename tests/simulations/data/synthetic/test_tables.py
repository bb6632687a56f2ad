"""What is public about made-up people: tables of whole numbers that say what they should."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from fedboard.simulations.data.synthetic import people_tables as words
from fedboard.simulations.data.synthetic.people import PeopleConfig, PeopleStream
from fedboard.simulations.data.synthetic.people_tables import ML_1M, UNIT, alias_table


@settings(max_examples=60, deadline=None)
@given(weights=some.lists(some.integers(1, 1 << 22), min_size=1, max_size=50))
def test_a_table_draws_each_by_its_weight(weights: list[int]) -> None:
    given = np.array(weights, dtype=np.int64)

    keep, other = alias_table(given)
    drawn = keep.astype(np.float64) / UNIT
    np.add.at(drawn, other, 1 - keep / UNIT)

    assert drawn / given.size == pytest.approx(given / given.sum(), abs=1 / UNIT)


def test_tastes_stay_whole_numbers_that_float32_adds_exactly() -> None:
    tables = PeopleStream(config=PeopleConfig(users=1, items=3449)).tables
    furthest = words.CENTRE * np.array(ML_1M.taste_spreads) // UNIT + 1

    assert np.array_equal(tables.taste, np.rint(tables.taste))
    assert float((np.abs(tables.taste).max(axis=0) * furthest).sum()) < 2**24
