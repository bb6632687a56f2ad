import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import solve_psd

pytestmark = pytest.mark.slow

RANKS = (1, 3, 8, 16, 24, 32, 64)
RELATIVE_ERROR = 1e-5


def noisy_sums(rank, *, noise, count=24, seed=0):
    """Sums over few and many users plus symmetric noise: some definite, some with half the signs wrong."""
    rng = np.random.default_rng(seed + rank)
    upper = np.triu_indices(rank)
    matrices = np.empty((count, rank, rank))
    for i in range(count):
        users = rng.standard_normal((int(10 ** rng.uniform(0.5, 3.3)), rank)) / np.arange(1, rank + 1)
        error = np.triu(rng.standard_normal((rank, rank))) * noise
        matrices[i] = users.T @ users + error + np.triu(error, 1).T
    return matrices[(slice(None), *upper)], 20.0 * rng.standard_normal((count, rank))


def solution_by_definition(quadratic, linear, ridge, gram=None):
    rank = linear.shape[1]
    solutions = []
    for packed, b, r in zip(quadratic, linear, ridge, strict=True):
        full = np.zeros((rank, rank))
        full[np.triu_indices(rank)] = packed
        values, vectors = np.linalg.eigh(full, UPLO="U")
        projected = (vectors * np.maximum(values, 0.0)) @ vectors.T
        solutions.append(np.linalg.solve(projected + r * np.eye(rank) + (0.0 if gram is None else gram), b))
    return np.array(solutions)


def relative_error(found, expected):
    return np.max(np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1))


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("noise", [0.0, 0.3, 30.0])
@pytest.mark.parametrize("ridge", [1e-2, 5.0])
def test_solution_is_that_of_the_projected_matrix(backend, rank, noise, ridge):
    quadratic, linear = noisy_sums(rank, noise=noise)
    ridges = np.full(len(linear), ridge)

    found = solve_psd(quadratic, linear, ridge=ridges, backend=backend)

    assert relative_error(found, solution_by_definition(quadratic, linear, ridges)) < RELATIVE_ERROR


@pytest.mark.parametrize("rank", [3, 32])
def test_gram_is_added_after_the_projection(backend, rank):
    quadratic, linear = noisy_sums(rank, noise=5.0)
    ridge = np.linspace(0.5, 9.0, len(linear))
    root = np.random.default_rng(1).standard_normal((rank, rank))

    found = solve_psd(quadratic, linear, ridge=ridge, gram=root @ root.T, backend=backend)

    expected = solution_by_definition(quadratic, linear, ridge, root @ root.T)
    assert relative_error(found, expected) < RELATIVE_ERROR


@pytest.mark.parametrize("rank", [4, 32, 48])
@pytest.mark.parametrize(
    "matrix",
    ["zero", "identity", "minus identity", "diagonal", "rank one", "one eigenvalue at minus the ridge"],
)
def test_special_matrices_are_solved(backend, rank, matrix):
    direction = np.random.default_rng(rank).standard_normal(rank)
    direction /= np.linalg.norm(direction)
    full = {
        "zero": np.zeros((rank, rank)),
        "identity": np.eye(rank),
        "minus identity": -np.eye(rank),
        "diagonal": np.diag(np.linspace(-5.0, 5.0, rank)),
        "rank one": 1e4 * np.outer(direction, direction),
        "one eigenvalue at minus the ridge": np.diag(np.where(np.arange(rank) == 1, -0.5, 2.0)),
    }[matrix]
    quadratic, linear, ridge = full[np.triu_indices(rank)][np.newaxis], np.ones((1, rank)), np.array([0.5])

    found = solve_psd(quadratic, linear, ridge=ridge, backend=backend)

    assert relative_error(found, solution_by_definition(quadratic, linear, ridge)) < RELATIVE_ERROR


@pytest.mark.parametrize("rank", [8, 32])
def test_threads_and_splits_do_not_show(backend, rank):
    quadratic, linear = noisy_sums(rank, noise=1.0)
    ridge = np.ones(len(linear))
    whole = solve_psd(quadratic, linear, ridge=ridge, backend=backend)

    parts = [
        solve_psd(quadratic[s], linear[s], ridge=ridge[s], backend=backend)
        for s in (slice(0, 5), slice(5, 24))
    ]

    assert np.array_equal(whole, np.concatenate(parts))
    assert np.array_equal(whole, solve_psd(quadratic, linear, ridge=ridge, backend=backend, threads=2))


def test_what_cannot_be_solved_is_refused(backend):
    quadratic, linear, ridge = np.ones((2, 3)), np.ones((2, 2)), np.ones(2)

    with pytest.raises(InputError):
        solve_psd(quadratic, linear, ridge=np.array([1.0, 0.0]), backend=backend)
    with pytest.raises(InputError):
        solve_psd(quadratic * np.nan, linear, ridge=ridge, backend=backend)
    with pytest.raises(InputError):
        solve_psd(quadratic, np.ones((2, 3)), ridge=ridge, backend=backend)
    with pytest.raises(InputError):
        solve_psd(quadratic, linear, ridge=ridge, gram=np.eye(3), backend=backend)
