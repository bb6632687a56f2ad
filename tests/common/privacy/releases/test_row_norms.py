"""The L2 bound of rows, to the last unit."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.privacy.releases.booking import keeps_l2_bound

WIDE = 2**63


def obvious(rows: np.ndarray, bound: int) -> list[bool]:
    return [sum(int(value) ** 2 for value in row) <= bound**2 for row in rows]


def in_floats(rows: np.ndarray, bound: int) -> list[bool]:
    values = rows.astype(np.float64)
    return list(np.sqrt(np.einsum("jw,jw->j", values, values)) <= bound)


def test_a_row_that_is_longer_by_a_rounding_is_found() -> None:
    bound = 2**38
    rows = np.array([[bound, 0], [bound, 1], [bound, -1], [bound - 1, 1], [-bound, 0], [bound + 1, 0]])

    assert keeps_l2_bound(rows, bound).tolist() == [True, False, False, True, True, False]
    assert in_floats(rows, bound)[1]  # what 64-bit floats make of it


@pytest.mark.slow
@settings(deadline=None, max_examples=200)
@given(st.data())
def test_every_row_is_judged_as_in_whole_numbers(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 4))
    number = st.integers(-WIDE, WIDE - 1)
    rows = np.array(
        data.draw(st.lists(st.lists(number, min_size=width, max_size=width), min_size=1)), np.int64
    )
    squares = sum(int(value) ** 2 for value in rows[0])
    near = int(np.sqrt(float(squares)))
    bound = data.draw(st.integers(max(1, near - 2000), near + 2000))

    assert keeps_l2_bound(rows, bound).tolist() == obvious(rows, bound)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (70, 2000)])
def test_rows_are_judged_in_any_shape(shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).integers(-9, 9, shape)
    bound = max(1, int(np.sqrt((rows**2).sum(axis=1).mean()))) if rows.size else 1

    found = keeps_l2_bound(rows, bound).tolist()
    assert found == obvious(rows, bound)
    assert len(set(found)) == (2 if rows.size else len(set(found)))


def test_the_smallest_number_is_as_long_as_it_is() -> None:
    rows = np.array([[-WIDE], [WIDE - 1]])

    assert keeps_l2_bound(rows, WIDE - 1).tolist() == [False, True]
    assert keeps_l2_bound(rows, WIDE).tolist() == [True, True]


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("largest", [2**31 - 1, 2**31, math.isqrt(2**63 // 3), math.isqrt(2**63), 2**32])
def test_sums_that_just_fit_64_bits_and_just_do_not_are_judged_alike(width: int, largest: int) -> None:
    sizes = [largest, -largest, largest + 1, largest - 1]
    rows = np.array([[size] * width for size in sizes], np.int64)
    exactly = math.isqrt(width * largest**2)

    for bound in (exactly - 1, exactly, exactly + 1, exactly + 2):
        assert keeps_l2_bound(rows, bound).tolist() == obvious(rows, bound)
        for row in rows:
            assert keeps_l2_bound(row[np.newaxis], bound).tolist() == obvious(row[np.newaxis], bound)
