import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import solve_ridge

RANKS = (1, 3, 8, 16, 32, 64)


def problem(pattern, rank, with_gram=False):
    rng = np.random.default_rng(rank)
    root = rng.standard_normal((rank, rank))
    return {
        "indptr": pattern.indptr,
        "columns": pattern.columns,
        "targets": rng.standard_normal(pattern.columns.size).astype(np.float32),
        "factors": (rng.standard_normal((pattern.n_columns, rank)) / np.sqrt(rank)).astype(np.float32),
        "ridge": rng.uniform(0.5, 3.0, pattern.n_rows).astype(np.float32),
        "gram": 0.1 * root @ root.T if with_gram else None,
    }


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("with_gram", [False, True])
def test_gradient_of_the_ridge_objective_is_zero_at_the_solution(backend, pattern, rank, with_gram):
    given = problem(pattern, rank, with_gram)

    solution = solve_ridge(**given, backend=backend).astype(np.float64)

    gram = given["gram"] if with_gram else np.zeros((rank, rank))
    for row, x in enumerate(solution):
        entries = slice(pattern.indptr[row], pattern.indptr[row + 1])
        rated = given["factors"][given["columns"][entries]].astype(np.float64)
        pull = rated.T @ given["targets"][entries]
        gradient = rated.T @ (rated @ x) + given["ridge"][row] * x + gram @ x - pull
        assert np.abs(gradient).max() <= 2e-5 * (1.0 + np.abs(pull).max())


@pytest.mark.parametrize("rank", [3, 16, 64])
def test_rows_solved_apart_or_by_two_threads_give_the_bits_of_rows_solved_together(backend, pattern, rank):
    given = problem(pattern, rank)
    together = solve_ridge(**given, backend=backend)

    assert np.array_equal(together, solve_ridge(**given, backend=backend, threads=2))
    for rows in (slice(0, 7), slice(7, 8), slice(8, pattern.n_rows)):
        part = given | {"indptr": pattern.indptr[rows.start : rows.stop + 1], "ridge": given["ridge"][rows]}
        assert np.array_equal(solve_ridge(**part, backend=backend), together[rows])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("columns", np.array([700], np.int32)),
        ("columns", np.array([-1], np.int32)),
        ("indptr", np.array([0, 2], np.int64)),
        ("ridge", np.array([0.0], np.float32)),
        ("ridge", np.array([np.nan], np.float32)),
        ("gram", np.zeros((2, 2))),
        ("targets", np.zeros(2, np.float32)),
        ("out", np.zeros((2, 8), np.float32)),
    ],
)
def test_arrays_that_do_not_fit_are_refused(backend, name, value):
    given = {
        "indptr": np.array([0, 1], np.int64),
        "columns": np.array([5], np.int32),
        "targets": np.ones(1, np.float32),
        "factors": np.ones((700, 8), np.float32),
        "ridge": np.ones(1, np.float32),
    }

    with pytest.raises(InputError):
        solve_ridge(**(given | {name: value}), backend=backend)
