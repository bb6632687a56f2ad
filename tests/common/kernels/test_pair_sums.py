"""Sums over all pairs of entries of a row: exact, in every backend."""

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import pair_sums

LARGEST = 32_767


def dense(indptr, items, responses, n_items):
    rows = np.zeros((indptr.size - 1, n_items), dtype=np.int64)
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            rows[row, items[k]] += int(responses[k])
    return (rows.T @ rows)[np.triu_indices(n_items)]


@pytest.mark.parametrize("shuffled", [False, True])
def test_they_are_those_of_the_whole_matrix(backend, pattern, shuffled):
    rng = np.random.default_rng(1)
    items, responses = pattern.columns.copy(), rng.integers(-900, 900, pattern.columns.size).astype(np.int16)
    if shuffled:
        for first, last in zip(pattern.indptr[:-1], pattern.indptr[1:], strict=True):
            rng.shuffle(items[first:last])

    found = pair_sums(pattern.indptr, items, responses, n_items=pattern.n_columns, backend=backend)

    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, dense(pattern.indptr, items, responses, pattern.n_columns))


def test_the_largest_numbers_do_not_wrap_round(backend):
    indptr, items = np.arange(0, 2 * 70_001, 2), np.tile(np.array([0, 2], np.int32), 70_000)
    responses = np.tile(np.array([LARGEST, -LARGEST], np.int16), 70_000)

    found = pair_sums(indptr, items, responses, n_items=3, backend=backend)

    square = 70_000 * LARGEST**2
    assert found.tolist() == [square, 0, -square, 0, 0, square]


def test_columns_of_a_larger_array_are_read_as_they_are(backend):
    both = np.array([[1, 5], [2, 6]], np.int16)

    found = pair_sums(np.array([0, 2]), np.array([0, 1], np.int32), both[:, 1], n_items=2, backend=backend)

    assert found.tolist() == [25, 30, 36]


@pytest.mark.parametrize(
    ("indptr", "items", "n_responses"),
    [
        ([0, 2], [0, 4], 2),
        ([0, 2], [-1, 0], 2),
        ([0, 2], [0, 1], 1),
        ([0, 3], [0, 1], 2),
        ([0, 2, 1], [0, 1], 2),
    ],
)
def test_arrays_that_do_not_fit_are_refused(backend, indptr, items, n_responses):
    with pytest.raises(InputError):
        pair_sums(
            np.array(indptr),
            np.array(items, np.int32),
            np.ones(n_responses, np.int16),
            n_items=4,
            backend=backend,
        )


def test_other_widths_are_refused_rather_than_cut(backend):
    with pytest.raises(InputError, match="int16"):
        pair_sums(np.array([0, 1]), np.zeros(1, np.int32), np.array([40_000]), n_items=1, backend=backend)
    with pytest.raises(InputError, match="catalogue"):
        pair_sums(np.array([0, 1]), np.array([2**32]), np.ones(1, np.int16), n_items=1, backend=backend)
    with pytest.raises(InputError, match="n_items"):
        pair_sums(np.array([0]), np.zeros(0, np.int32), np.zeros(0, np.int16), n_items=-3, backend=backend)
