"""Every item has three bins, every user's items find bins of their own, and sums come back by item."""

import numpy as np
import pytest

from fedboard.common.protocols.two_server.bins import N_TABLES, Bins


def test_each_table_holds_every_item_once() -> None:
    bins = Bins.of(b"round", n_items=100, most_items=8)

    for table in range(N_TABLES):
        assert sorted(bins.orders[table]) == list(range(100))
        np.testing.assert_array_equal(bins.places[table][bins.orders[table]], np.arange(100))
    assert bins.n_rows * bins.per_table >= 100


def test_bins_are_the_same_on_every_machine_and_others_in_another_round() -> None:
    bins = Bins.of(b"round", n_items=50, most_items=4)
    assert bins.orders[:, :6].tolist() == [
        [1, 34, 21, 14, 32, 13],
        [35, 4, 26, 12, 43, 32],
        [49, 43, 26, 39, 18, 19],
    ]
    assert (bins.orders != Bins.of(b"other", n_items=50, most_items=4).orders).any()


@pytest.mark.parametrize("most_items", [1, 2, 5, 16, 64])
def test_items_get_bins_of_their_own_that_hold_them(most_items: int) -> None:
    random = np.random.default_rng(most_items)
    bins = Bins.of(b"round", n_items=3000, most_items=most_items)
    for _ in range(100):
        items = random.choice(3000, most_items, replace=False)
        found = bins.assign(items)
        assert (found >= 0).all()
        assert np.unique(found).size == most_items
        values = np.zeros((bins.n_bins, bins.n_rows, 1), dtype=np.uint32)
        values[found, bins.rows(items, found), 0] = np.arange(1, most_items + 1)
        by_item = bins.by_item(values)[:, 0]
        np.testing.assert_array_equal(by_item[items], np.arange(1, most_items + 1))
        assert np.count_nonzero(by_item) == most_items


def test_where_bins_are_short_the_last_items_go_without_and_no_bin_is_given_twice() -> None:
    bins = Bins.of(b"round", n_items=3000, most_items=1)
    items = np.random.default_rng(0).choice(3000, 200, replace=False)

    found = bins.assign(items)

    placed = found[found >= 0]
    assert np.unique(placed).size == placed.size == bins.n_bins
    assert (found[:3] >= 0).all()
    assert (found[-100:] < 0).all()
