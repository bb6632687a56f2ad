"""What own models leave unexplained: exact products, summed in one order by every backend."""

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import residuals_of_rows

WIDTHS = (0, 1, 2, 7, 8, 9, 13, 16, 31)


def problem(pattern, width):
    rng = np.random.default_rng(width)
    return {
        "indptr": pattern.indptr,
        "items": pattern.columns,
        "targets": rng.standard_normal(pattern.columns.size).astype(np.float32),
        "vectors": rng.standard_normal((pattern.n_columns, width)).astype(np.float32),
        "own": rng.standard_normal((pattern.n_rows, 1 + width)).astype(np.float32),
    }


@pytest.mark.parametrize("width", WIDTHS)
def test_they_are_what_is_left_of_each_entry(backend, pattern, width):
    given = problem(pattern, width)

    found = residuals_of_rows(**given, backend=backend)

    rows = np.repeat(np.arange(pattern.n_rows), np.diff(pattern.indptr))
    mine, theirs = given["own"][rows].astype(np.float64), given["vectors"][given["items"]].astype(np.float64)
    levels = (given["targets"] - given["own"][rows, 0]).astype(np.float64)
    np.testing.assert_allclose(found, levels - (mine[:, 1:] * theirs).sum(axis=1), rtol=0, atol=1e-13)


@pytest.mark.parametrize("width", WIDTHS)
def test_compiled_loops_add_in_the_order_that_they_state(backend, pattern, width):
    """Even and odd places apart, each eight from behind; no product is rounded, no sum fused with it."""
    if backend == "numpy":
        return
    given = problem(pattern, width)
    found = residuals_of_rows(**given, backend=backend)
    for row in (2, 4, 9):
        for k in range(pattern.indptr[row], min(pattern.indptr[row + 1], pattern.indptr[row] + 20)):
            own, item = given["own"][row], given["vectors"][given["items"][k]]
            terms = [float(a) * float(b) for a, b in zip(item, own[1:], strict=True)]
            sums = [0.0, 0.0]
            eights = width // 8 * 8
            places = [first + 6 - 2 * back for first in range(0, eights, 8) for back in range(4)]
            for place in [*places, *range(eights, width, 2)]:
                for side in (0, 1):
                    if place + side < width:
                        sums[side] = terms[place + side] + sums[side]
            assert found[k] == float(np.float32(given["targets"][k]) - own[0]) - (sums[0] + sums[1])


@pytest.mark.parametrize(
    "wrong",
    [
        {"indptr": np.array([0, 3])},
        {"indptr": np.array([1, 2])},
        {"items": np.array([0, 4], np.int32)},
        {"items": np.array([-1, 0], np.int32)},
        {"targets": np.ones(3, np.float32)},
        {"own": np.ones((1, 3), np.float32)},
        {"own": np.ones((2, 4), np.float32)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(backend, wrong):
    fitting = {
        "indptr": np.array([0, 2]),
        "items": np.array([0, 1], np.int32),
        "targets": np.ones(2, np.float32),
        "vectors": np.ones((4, 3), np.float32),
        "own": np.ones((1, 4), np.float32),
    }
    assert residuals_of_rows(**fitting, backend=backend).shape == (2,)
    with pytest.raises(InputError):
        residuals_of_rows(**{**fitting, **wrong}, backend=backend)
