"""Sums over the entries of rows and of items: one order, and so the same bits, in every backend."""

import math

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import less_levels, norms_by_row, sums_by_item, sums_by_row


@pytest.fixture
def given(pattern):
    rng = np.random.default_rng(5)
    return {
        "indptr": pattern.indptr,
        "items": pattern.columns,
        "values": rng.standard_normal(pattern.columns.size).astype(np.float32),
    }


def test_an_entry_loses_the_level_of_its_item(backend, pattern, given):
    levels = np.random.default_rng(9).standard_normal(pattern.n_columns).astype(np.float32)

    found = less_levels(pattern.columns, given["values"], levels, backend=backend)

    assert found.dtype == np.float32
    expected = [np.float32(y - levels[i]) for y, i in zip(given["values"], pattern.columns, strict=True)]
    np.testing.assert_array_equal(found, np.array(expected))


@pytest.mark.parametrize(
    ("items", "n_values", "n_levels"), [([0, 4], 2, 4), ([-1, 0], 2, 4), ([0, 1], 1, 4), ([0], 2, 4)]
)
def test_levels_that_there_are_not_are_refused(backend, items, n_values, n_levels):
    with pytest.raises(InputError):
        less_levels(
            np.array(items, np.int32),
            np.ones(n_values, np.float32),
            np.ones(n_levels, np.float32),
            backend=backend,
        )


def test_a_rows_sum_is_added_entry_by_entry(backend, pattern, given):
    levels = np.random.default_rng(6).standard_normal(pattern.n_columns)

    found = sums_by_row(**given, item_levels=levels, backend=backend)

    for row in range(pattern.n_rows):
        total = 0.0
        for k in range(pattern.indptr[row], pattern.indptr[row + 1]):
            total += float(given["values"][k]) - float(levels[pattern.columns[k]])
        assert found[row] == total


def test_an_items_sum_is_added_row_by_row(backend, pattern, given):
    levels = np.random.default_rng(7).standard_normal(pattern.n_rows)

    found = sums_by_item(**given, row_levels=levels, n_items=pattern.n_columns + 1, backend=backend)

    expected = [0.0] * (pattern.n_columns + 1)
    for row in range(pattern.n_rows):
        for k in range(pattern.indptr[row], pattern.indptr[row + 1]):
            expected[pattern.columns[k]] += float(given["values"][k]) - float(levels[row])
    assert found.tolist() == expected


def test_a_rows_norm_is_that_of_the_products(backend, pattern):
    rng = np.random.default_rng(8)
    weights, values = rng.random(pattern.columns.size), rng.standard_normal(pattern.columns.size)

    found = norms_by_row(pattern.indptr, weights, values, backend=backend)

    for row in range(pattern.n_rows):
        total = 0.0
        for k in range(pattern.indptr[row], pattern.indptr[row + 1]):
            part = float(weights[k]) * float(values[k])
            total += part * part
        assert found[row] == math.sqrt(total)


@pytest.mark.parametrize(
    "wrong",
    [
        {"indptr": np.array([0, 3])},
        {"indptr": np.array([1, 2])},
        {"indptr": np.array([0, 2, 1, 2])},
        {"indptr": np.array([0, 2**63 - 1, -2, 2])},
        {"items": np.array([0, 4], np.int32)},
        {"items": np.array([-1, 0], np.int32)},
        {"items": np.array([0], np.int32)},
        {"values": np.ones(3, np.float32)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(backend, wrong):
    fitting = {
        "indptr": np.array([0, 2]),
        "items": np.array([0, 3], np.int32),
        "values": np.ones(2, np.float32),
    }
    by_row, by_item = {"item_levels": np.zeros(4)}, {"row_levels": np.zeros(1), "n_items": 4}
    assert sums_by_row(**fitting, **by_row, backend=backend).tolist() == [2.0]
    assert sums_by_item(**fitting, **by_item, backend=backend).tolist() == [1.0, 0.0, 0.0, 1.0]

    with pytest.raises(InputError):
        sums_by_row(**{**fitting, **wrong}, **by_row, backend=backend)
    with pytest.raises(InputError):
        sums_by_item(**{**fitting, **wrong}, **by_item, backend=backend)


def test_levels_and_values_of_another_length_are_refused(backend):
    one = {"indptr": np.array([0, 1]), "items": np.zeros(1, np.int32), "values": np.ones(1, np.float32)}
    with pytest.raises(InputError):
        sums_by_item(**one, row_levels=np.zeros(2), n_items=1, backend=backend)
    with pytest.raises(InputError):
        norms_by_row(np.array([0, 2]), np.ones(2), np.ones(1), backend=backend)
    with pytest.raises(InputError):
        norms_by_row(np.array([0, 2]), np.ones(1), np.ones(2), backend=backend)
