import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import unit_rows


def item_weights(pattern):
    """From far below to far above what a row's norm may be."""
    return 10.0 ** np.random.default_rng(1).uniform(-3, 1, pattern.n_columns)


def rows_by_definition(pattern, omega, spend_all):
    """One row and one entry at a time, added in order."""
    expected = []
    for first, last in zip(pattern.indptr[:-1], pattern.indptr[1:], strict=True):
        own = [float(omega[item]) for item in pattern.columns[first:last]]
        total = 0.0
        for weight in own:
            total += weight * weight
        norm = total**0.5 if spend_all else max(total**0.5, 1.0)
        expected += [min(weight / norm, 1.0) for weight in own]
    return np.array(expected)


@pytest.mark.parametrize("spend_all", [True, False])
def test_every_backend_gives_the_bits_of_the_definition(backend, pattern, spend_all):
    omega = item_weights(pattern)

    weights = unit_rows(pattern.indptr, pattern.columns, omega, spend_all=spend_all, backend=backend)

    assert np.array_equal(weights, rows_by_definition(pattern, omega, spend_all))


@pytest.mark.parametrize("spend_all", [True, False])
def test_no_row_exceeds_a_norm_of_one_and_all_reach_it_if_asked(backend, pattern, spend_all):
    weights = unit_rows(
        pattern.indptr, pattern.columns, item_weights(pattern), spend_all=spend_all, backend=backend
    )

    rows = np.repeat(np.arange(pattern.n_rows), np.diff(pattern.indptr))
    squares = np.bincount(rows, weights=weights**2, minlength=pattern.n_rows)
    assert squares.max() <= 1 + 1e-12
    filled = np.diff(pattern.indptr) > 0
    assert np.allclose(squares[filled], 1.0) == spend_all


@pytest.mark.parametrize(
    ("indptr", "items"),
    [
        ([0, 3], [0, 1]),
        ([1, 2], [0, 1]),
        ([0, 2, 1, 2], [0, 1]),
        ([0, 2], [0, 4]),
        ([0, 2], [-1, 0]),
        ([], []),
    ],
)
def test_arrays_that_do_not_fit_are_refused(backend, indptr, items):
    with pytest.raises(InputError):
        unit_rows(
            np.array(indptr, np.int64), np.array(items, np.int32), np.ones(4), spend_all=True, backend=backend
        )
