"""What a ridge does for ratings that were left out: held against solving again without each."""

from math import sqrt

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import left_out_errors
from fedboard.common.kernels.solves import MOST_LEFT_OUT

RIDGES, BIAS_RIDGE = np.array([0.3, 3.0, 40.0]), 2.0


@pytest.fixture(scope="module")
def given(pattern):
    rng = np.random.default_rng(8)
    return {
        "indptr": pattern.indptr,
        "items": pattern.columns,
        "targets": (3.0 * rng.standard_normal(pattern.columns.size)).astype(np.float32),
        "factors": (0.7 * rng.standard_normal((pattern.n_columns, 4))).astype(np.float32),
        "ridges": RIDGES,
        "growth": rng.uniform(0.5, 3.0, pattern.n_rows),
        "bias_ridge": BIAS_RIDGE,
    }


def really_left_out(columns, wanted, ridge):
    """Mean squared error for each of at most 32 ratings, evenly spaced, by a regression on all the others."""
    chosen = range(0, wanted.size, -(-wanted.size // MOST_LEFT_OUT))
    errors = []
    for k in chosen:
        x, y = np.delete(columns, k, axis=0), np.delete(wanted, k)
        found = np.linalg.solve(x.T @ x + np.diag(ridge), x.T @ y)
        errors.append((wanted[k] - columns[k] @ found) ** 2)
    return np.mean(errors)


def expected_row(given, row):
    entries = slice(given["indptr"][row], given["indptr"][row + 1])
    wanted = given["targets"][entries].astype(np.float64)
    if wanted.size < 2:
        return np.zeros(RIDGES.size)
    constant = np.ones((wanted.size, 1))
    columns = np.hstack([constant, given["factors"][given["items"][entries]].astype(np.float64)])
    own = given["growth"][row]
    alone = really_left_out(constant, wanted, [own * BIAS_RIDGE])
    return [
        really_left_out(columns, wanted, own * np.array([BIAS_RIDGE, *[ridge] * 4])) - alone
        for ridge in RIDGES
    ]


def test_errors_are_those_of_solving_again_without_each_rating(backend, given):
    found = left_out_errors(**given, backend=backend)

    lengths = np.diff(given["indptr"])
    assert {0, 1, 2, 600} <= set(lengths.tolist())  # nothing to leave out, one other, more than are left out
    for row in range(lengths.size):
        np.testing.assert_allclose(found[row], expected_row(given, row), rtol=1e-8, atol=1e-8)
    assert np.count_nonzero(found) == RIDGES.size * np.count_nonzero(lengths > 1)


def test_backends_agree(backend, given):
    reference = left_out_errors(**given, backend="numpy")

    np.testing.assert_allclose(left_out_errors(**given, backend=backend), reference, rtol=1e-9, atol=1e-9)


def one_after_the_other(columns, wanted, pulls):
    """What compiled kernels compute for one ridge, operation by operation, each rounded alone."""
    width = columns.shape[1]
    base, moment = [[0.0] * width for _ in range(width)], [0.0] * width
    for x, target in zip(columns.tolist(), wanted.tolist(), strict=True):
        for row in range(width):
            moment[row] += target * x[row]
            for column in range(row, width):
                base[row][column] += x[row] * x[column]
    root = [[base[a][b] + (pulls[a] if a == b else 0.0) for b in range(width)] for a in range(width)]
    own = list(moment)
    for pivot in range(width):
        scale = 1.0 / sqrt(root[pivot][pivot])
        root[pivot][pivot:] = [value * scale for value in root[pivot][pivot:]]
        own[pivot] *= scale
        for row in range(pivot + 1, width):
            factor = root[pivot][row]
            own[row] -= factor * own[pivot]
            for column in range(row, width):
                root[row][column] -= factor * root[pivot][column]
    for row in range(width - 1, -1, -1):
        rest = own[row]
        for column in range(row + 1, width):
            rest -= root[row][column] * own[column]
        own[row] = rest / root[row][row]
    total, seen = 0.0, range(0, wanted.size, -(-wanted.size // MOST_LEFT_OUT))
    for k in seen:
        residual, leverage, half = float(wanted[k]), 0.0, [0.0] * width
        for row, entry in enumerate(columns[k].tolist()):
            residual -= entry * own[row]
            rest = entry
            for column in range(row):
                rest -= root[column][row] * half[column]
            half[row] = rest / root[row][row]
            leverage += half[row] * half[row]
        residual /= 1.0 - leverage
        total += residual * residual
    return total, len(seen)


def test_ridges_side_by_side_are_bit_for_bit_one_after_the_other(backend, given):
    """In lanes of a vector, and ratings by fours: more ridges than lanes, and neither divides what there is."""
    if backend == "numpy":
        return
    many = np.geomspace(0.1, 50.0, 11)
    found = left_out_errors(**{**given, "ridges": many}, backend=backend)
    for row in (1, 2, 4, 5, 9, 46):
        entries = slice(given["indptr"][row], given["indptr"][row + 1])
        wanted = given["targets"][entries].astype(np.float64)
        if wanted.size < 2:
            continue
        columns = np.hstack(
            [np.ones((wanted.size, 1)), given["factors"][given["items"][entries]].astype(np.float64)]
        )
        own = given["growth"][row]
        alone, seen = one_after_the_other_alone(columns[:, 0], wanted, own * BIAS_RIDGE)
        for number, ridge in enumerate(many.tolist()):
            total, _ = one_after_the_other(columns, wanted, own * np.array([BIAS_RIDGE, *[ridge] * 4]))
            assert found[row, number] == (total - alone) / seen


def one_after_the_other_alone(ones, wanted, pull):
    """The same without factors."""
    system, moment, total = float(ones.sum()) + pull, 0.0, 0.0
    for target in wanted.tolist():
        moment += target
    seen = range(0, wanted.size, -(-wanted.size // MOST_LEFT_OUT))
    for k in seen:
        error = (float(wanted[k]) - moment / system) / (1.0 - 1.0 / system)
        total += error * error
    return total, len(seen)


def test_a_row_does_not_see_the_others(backend, given):
    whole = left_out_errors(**given, backend=backend)
    for row in (2, 4, 9):
        first, last = given["indptr"][row], given["indptr"][row + 1]
        part = {"items": given["items"][first:last], "targets": given["targets"][first:last]}
        alone = {"indptr": np.array([0, last - first]), "growth": given["growth"][row : row + 1]}

        found = left_out_errors(**{**given, **part, **alone}, backend=backend)

        np.testing.assert_array_equal(found[0], whole[row])


def test_absurd_factors_raise_nothing(backend, given):
    """A leverage that rounds to 1 is for the caller to look for: an error would tell who rated such an item."""
    absurd = {**given, "factors": np.full_like(given["factors"], 1e6), "ridges": np.array([1e-3])}
    with np.errstate(all="ignore"):
        found = left_out_errors(**absurd, backend=backend)
    assert found.shape == (given["growth"].size, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"indptr": np.array([0, 3])},
        {"indptr": np.array([0, 2, 1, 2])},
        {"indptr": np.array([-1, 2])},
        {"items": np.array([0, 4], np.int32)},
        {"items": np.array([-1, 0], np.int32)},
        {"targets": np.ones(3, np.float32)},
        {"growth": np.ones(2)},
        {"growth": np.zeros(1)},
        {"growth": np.array([np.nan])},
        {"ridges": np.array([1.0, 0.0])},
        {"ridges": np.array([np.nan])},
        {"bias_ridge": 0.0},
    ],
)
def test_arrays_that_do_not_fit_are_refused(backend, wrong):
    fitting = {
        "indptr": np.array([0, 2]),
        "items": np.array([0, 1], np.int32),
        "targets": np.ones(2, np.float32),
        "factors": np.ones((4, 3), np.float32),
        "ridges": np.ones(2),
        "growth": np.ones(1),
        "bias_ridge": 1.0,
    }
    assert left_out_errors(**fitting, backend=backend).shape == (1, 2)
    with pytest.raises(InputError):
        left_out_errors(**{**fitting, **wrong}, backend=backend)
