import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fedboard.simulations.datasets import numbering
from fedboard.simulations.datasets.numbering import (
    counting_order,
    first_repeated_row,
    id_order,
    is_sorted,
    number_integers,
    pair_order,
    text_order,
)


# Close ids go through a lookup table, distant ones through a sort.
@pytest.mark.parametrize("column", [[5, 3, 5, -2], [2**62, -(2**62), 0, 0], [7]])
def test_integer_ids_are_numbered_in_ascending_order(column):
    column = np.array(column)
    ids, codes = np.unique(column, return_inverse=True)

    numbered = number_integers(column)

    assert_array_equal(numbered.ids, ids)
    assert_array_equal(numbered.codes, codes)
    assert numbered.codes.dtype == np.int32


@given(
    st.lists(st.text(max_size=4) | st.from_regex(r"0?[0-9]{1,22}", fullmatch=True), min_size=1, unique=True)
)
def test_texts_of_arrow_have_the_order_of_ids(words):
    assert text_order(pa.array(words, pa.string())).tolist() == id_order(words)


@given(st.lists(st.integers(0, 9), min_size=1))
def test_counting_order_is_the_stable_order(keys):
    keys = np.array(keys, dtype=np.int32)

    assert_array_equal(counting_order(keys, 10), np.argsort(keys, kind="stable"))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1))
def test_pair_order_is_the_stable_order_and_finds_the_first_repetition(pairs):
    users, items = (np.array(column, dtype=np.int32) for column in zip(*pairs, strict=True))
    seen: set[tuple[int, int]] = set()
    repeated = next((row for row, pair in enumerate(pairs) if pair in seen or seen.add(pair)), None)

    order = pair_order(users, items, n_users=6, n_items=4)

    assert_array_equal(order, np.lexsort((items, users)))
    assert first_repeated_row(users[order], items[order], order) == repeated
    assert is_sorted(users, items) == (list(pairs) == sorted(set(pairs)))


@pytest.mark.parametrize("at_once", [1, 4, 7, 1000])
def test_users_in_order_are_sorted_in_blocks_of_any_size(at_once, monkeypatch):
    monkeypatch.setattr(numbering, "_ROWS_AT_ONCE", at_once)
    rng = np.random.default_rng(1)
    users = np.sort(rng.integers(0, 40, 300)).astype(np.int32)
    items = rng.integers(0, 4, 300).astype(
        np.int32
    )  # pairs repeat: the order among them is theirs in the file

    assert_array_equal(pair_order(users, items, n_users=43, n_items=4), np.lexsort((items, users)))
