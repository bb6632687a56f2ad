"""Of a large catalogue a few rows are taken, and they are the right ones."""

import numpy as np
import pytest

from fedboard.common.tasks.shared import regression
from fedboard.common.tasks.shared.regression import gram_of, rated_rows


@pytest.mark.parametrize("n_items", [20, 100, 10_000])
@pytest.mark.parametrize("n_ratings", [0, 1, 12])
def test_the_rows_that_are_taken_are_those_of_the_items(n_items: int, n_ratings: int) -> None:
    rng = np.random.default_rng(n_items + n_ratings)
    values = rng.standard_normal((n_items, 3))
    items = rng.integers(n_items, size=n_ratings).astype(np.int32)

    rows, places = rated_rows(items, n_items)

    np.testing.assert_array_equal(values[rows][places], values[items])
    assert places.dtype == np.int32
    assert len(values[rows]) in (n_items, np.unique(items).size)


def test_a_gram_matrix_in_blocks_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = np.random.default_rng(1).standard_normal((50, 4)).astype(np.float32)
    whole = gram_of(factors)

    monkeypatch.setattr(regression, "_ROWS_AT_ONCE", 7)

    np.testing.assert_array_equal(whole, factors.T.astype(np.float64) @ factors)
    np.testing.assert_allclose(gram_of(factors), whole, rtol=1e-12)
