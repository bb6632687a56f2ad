"""Norms of rows, rows of unit norm, and what own models leave unexplained: the same by every backend."""

import math

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import (
    norms_by_row,
    residuals_of_rows,
    top_k,
    unit_rows,
)


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
def test_weights_that_do_not_fit_are_refused(backend, indptr, items):
    with pytest.raises(InputError):
        unit_rows(
            np.array(indptr, np.int64), np.array(items, np.int32), np.ones(4), spend_all=True, backend=backend
        )


WIDTHS = (0, 1, 2, 7, 8, 9, 13, 16, 31)


def a_few_rows(pattern, width):
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
    given = a_few_rows(pattern, width)

    found = residuals_of_rows(**given, backend=backend)

    rows = np.repeat(np.arange(pattern.n_rows), np.diff(pattern.indptr))
    mine, theirs = given["own"][rows].astype(np.float64), given["vectors"][given["items"]].astype(np.float64)
    levels = (given["targets"] - given["own"][rows, 0]).astype(np.float64)
    np.testing.assert_allclose(found, levels - (mine[:, 1:] * theirs).sum(axis=1), rtol=0, atol=1e-13)


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
def test_models_that_do_not_fit_are_refused(backend, wrong):
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


def a_few_users(n_users=300, n_items=500, rank=6):
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 40, n_users)
    excluded = [rng.choice(n_items, length, replace=False) for length in lengths]
    return {
        "user_factors": rng.standard_normal((n_users, rank)).astype(np.float32),
        "item_factors": rng.standard_normal((n_items, rank)).astype(np.float32),
        "exclude_indptr": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "exclude_items": np.concatenate(excluded).astype(np.int32),
        "bias": rng.standard_normal(n_items).astype(np.float32),
    }


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 20, 100])
def test_best_items_are_those_of_a_full_sort(backend, k):
    given = a_few_users()

    best = top_k(**given, k=k, backend=backend)

    scores = given["user_factors"] @ given["item_factors"].T + given["bias"]
    for user, row in enumerate(best):
        excluded = given["exclude_items"][slice(*given["exclude_indptr"][user : user + 2])]
        scores[user, excluded] = -np.inf
        np.testing.assert_allclose(scores[user, row], np.sort(scores[user])[::-1][:k], rtol=1e-5, atol=1e-5)
        assert not np.isin(row, excluded).any()
        assert np.unique(row).size == k


@pytest.mark.slow
def test_ties_go_to_the_lower_item_number(backend):
    given = a_few_users() | {
        "item_factors": np.zeros((500, 6), np.float32),
        "bias": np.zeros(500, np.float32),
    }
    given["bias"][[7, 400]] = 1.0
    nothing = {"exclude_indptr": np.zeros(301, np.int64), "exclude_items": np.empty(0, np.int32)}

    best = top_k(**(given | nothing), k=5, backend=backend)

    assert np.all(best == [7, 400, 0, 1, 2])


def test_user_with_too_few_candidates_gets_minus_one(backend):
    best = top_k(
        np.ones((1, 2), np.float32),
        np.ones((3, 2), np.float32),
        k=4,
        exclude_indptr=np.array([0, 1]),
        exclude_items=np.array([1], np.int32),
        backend=backend,
    )

    assert best.tolist() == [[0, 2, -1, -1]]


def test_threads_and_splits_do_not_show(backend):
    given = a_few_users()
    whole = top_k(**given, k=10, backend=backend)

    part = given | {
        "user_factors": given["user_factors"][77:],
        "exclude_indptr": given["exclude_indptr"][77:],
    }

    assert np.array_equal(whole, top_k(**given, k=10, backend=backend, threads=2))
    assert np.array_equal(whole[77:], top_k(**part, k=10, backend=backend))


def test_factors_that_do_not_fit_are_refused(backend):
    given = a_few_users()
    for name, value in (
        ("exclude_items", given["exclude_items"] + 499),
        ("bias", np.ones(3, np.float32)),
        ("k", 0),
    ):
        with pytest.raises(InputError):
            top_k(**({"k": 3} | given | {name: value}), backend=backend)


@pytest.mark.parametrize(("n_weights", "n_values"), [(2, 1), (1, 2), (1, 1)])
def test_norms_of_arrays_that_do_not_fit_are_refused(backend, n_weights, n_values):
    with pytest.raises(InputError):
        norms_by_row(np.array([0, 2]), np.ones(n_weights), np.ones(n_values), backend=backend)
