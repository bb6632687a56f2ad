"""A cohort's rows in blocks, and its items counted."""

import numpy as np
import pytest

from fedboard.common import cohort as cohorts
from fedboard.common.cohort import Cohort, row_blocks


@pytest.mark.parametrize("n_entries", [1, 2, 3, 5, 100])
def test_blocks_cover_all_rows_once_and_hold_no_more_than_asked(n_entries: int) -> None:
    indptr = np.array([0, 0, 2, 3, 3, 9, 10, 10])

    blocks = list(row_blocks(indptr, n_entries))

    assert [row for start, stop in blocks for row in range(start, stop)] == list(range(7))
    for start, stop in blocks:
        entries = indptr[stop] - indptr[start]
        assert entries <= n_entries or stop - start == 1
        if stop < 7:  # another row would not have fitted
            assert indptr[stop + 1] - indptr[start] > n_entries


def test_no_rows_are_no_blocks() -> None:
    assert list(row_blocks(np.zeros(1, np.int64), 3)) == []


@pytest.mark.parametrize("at_once", [1, 3, 1000])
def test_items_are_counted_in_any_blocks(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cohorts, "_ENTRIES_AT_ONCE", at_once)
    items = np.array([0, 2, 1, 2, 2, 4], np.int32)
    cohort = Cohort(indptr=np.array([0, 2, 4, 6]), items=items, ratings=np.ones(6, np.float32), n_items=6)

    assert cohort.item_counts().tolist() == [1, 1, 3, 0, 1, 0]
