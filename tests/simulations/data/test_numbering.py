import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fedboard.simulations.data.rules import first_repeated_row, is_sorted, pair_order


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1))
def test_pair_order_is_the_stable_order_and_finds_the_first_repetition(pairs):
    users, items = (np.array(column, dtype=np.int32) for column in zip(*pairs, strict=True))
    seen: set[tuple[int, int]] = set()
    repeated = next((row for row, pair in enumerate(pairs) if pair in seen or seen.add(pair)), None)

    order = pair_order(users, items)

    assert_array_equal(order, np.lexsort((items, users)))
    assert first_repeated_row(users[order], items[order], order) == repeated
    assert is_sorted(users, items) == (list(pairs) == sorted(set(pairs)))
