"""Packed matrices keep norms, and come back as they were.

What a user sends is bounded as a whole, whatever her examples are, and still points where they point.
"""

from dataclasses import replace

import numpy as np
import pytest

from fedboard.common.algorithms.representation.config import (
    AlternationTarget,
    LossName,
    Pairs,
    RepresentationConfig,
)
from fedboard.common.algorithms.representation.device import (
    GRID,
    alternation_rows,
    fit_vectors,
    initial_rows,
    pack,
    pack_kronecker,
    packed_width,
    unpack,
    unpack_kronecker,
)
from fedboard.common.algorithms.supervised.examples import Examples
from fedboard.common.arrays import FloatArray, IntArray
from tests.common.algorithms.representation.conftest import (
    DIMENSION,
    RANK,
    SETTINGS,
    alone,
    orthonormal,
    population,
)


def symmetric(rng: np.random.Generator, size: int) -> np.ndarray:
    matrix = rng.standard_normal((size, size))
    return matrix + matrix.T


def test_a_packed_matrix_has_the_norm_of_the_matrix_and_unpacks_to_it() -> None:
    matrix = symmetric(np.random.default_rng(0), 5)

    packed = pack(matrix)

    assert packed.shape == (packed_width(5),)
    assert np.linalg.norm(packed) == pytest.approx(np.linalg.norm(matrix))
    np.testing.assert_allclose(unpack(packed, 5), matrix)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_packed_product_has_the_norm_of_the_product_and_unpacks_to_it(rank: int) -> None:
    rng = np.random.default_rng(rank)
    left, right = symmetric(rng, 4), symmetric(rng, rank)

    packed = pack_kronecker(pack(left)[None], pack(right)[None])[0]

    whole = np.kron(left, right)
    assert packed.size <= packed_width(4 * rank)
    assert np.linalg.norm(packed) == pytest.approx(np.linalg.norm(whole))
    np.testing.assert_allclose(unpack_kronecker(packed, 4, rank), whole, atol=1e-12)


VARIANTS = {
    "residual": SETTINGS,
    "response": replace(SETTINGS, answer=AlternationTarget.RESPONSE, response_bound=2.0),
    "logistic": replace(SETTINGS, loss=LossName.LOGISTIC, user_ridge=0.1),
    "bounded": replace(SETTINGS, example_bound=0.5, vector_bound=1.0),
    "split": replace(SETTINGS, split_examples=True),
    "in data units": replace(SETTINGS, clip_norm=50.0),
}


def rows_of(examples: Examples, settings: RepresentationConfig, *, step_bound: float = 0.1) -> list[IntArray]:
    """All that a user may send in a run: the start and one alternation."""
    padded = examples.padded()
    alternation = alternation_rows(padded, orthonormal(), settings, step_bound=step_bound)
    return [initial_rows(padded, settings, clip_norm=settings.clip_norm), *alternation]


def norms(rows: IntArray) -> FloatArray:
    return np.linalg.norm(rows.astype(np.float64), axis=1)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("seed", range(3))
def test_each_users_rows_keep_the_declared_norm(name: str, seed: int) -> None:
    examples = population(seed, binary=name == "logistic")

    for rows in rows_of(examples, VARIANTS[name]):
        assert norms(rows).max() <= GRID


def test_a_sum_of_examples_that_are_each_clipped_would_not_keep_it() -> None:
    """The negative control: user 2 repeats an example, whose copies add up to several times the bound."""
    user = alone(population(), 2).padded()
    x, y = user.features[0], user.labels[0]
    directions = y[:, None] * x / np.linalg.norm(y[:, None] * x, axis=1, keepdims=True)

    each_clipped = sum(np.outer(a, b) for a in directions for b in directions if a is not b)

    assert np.linalg.norm(each_clipped) > 5.0


def test_ordinary_users_are_scaled_to_exactly_the_bound_where_the_clip_norm_is_tiny() -> None:
    start, curvature, gradient = rows_of(population(), SETTINGS)

    assert norms(start)[4:].min() > 0.999 * GRID or norms(start)[4:].min() == 0.0  # one example makes no pair
    largest = np.maximum(norms(curvature), norms(gradient))[4:]
    np.testing.assert_allclose(largest, GRID, rtol=1e-3)


def test_a_user_without_examples_or_with_zeros_gives_zeros() -> None:
    for rows in rows_of(population(), SETTINGS):
        assert not rows[0].any()
        assert not rows[3].any()


@pytest.mark.parametrize("name", VARIANTS)
def test_removing_a_user_changes_each_sum_by_her_own_row_alone(name: str) -> None:
    examples = population(1, binary=name == "logistic")
    everybody = rows_of(examples, VARIANTS[name])
    for user in range(examples.n_users):
        others = np.delete(np.arange(examples.n_users, dtype=np.int32), user)
        for all_rows, kept in zip(everybody, rows_of(examples.rows(others), VARIANTS[name]), strict=True):
            change = all_rows.sum(axis=0) - kept.sum(axis=0)
            # float kernels may sum padded places in another order: a grid unit each, far below the bound
            np.testing.assert_allclose(change, all_rows[user], atol=all_rows.shape[0])
            assert np.linalg.norm(change.astype(np.float64)) <= GRID * (1 + 1e-6)


def test_scaling_leaves_a_users_normal_equations_as_they_are() -> None:
    """Where her labels are exactly linear, the two sums agree on the model, scaled or not."""
    rng = np.random.default_rng(3)
    truth = orthonormal(9)
    features = rng.standard_normal((20, DIMENSION)).astype(np.float32)
    labels = (features @ truth @ rng.standard_normal(RANK)).astype(np.float32)
    user = Examples(indptr=np.array([0, 20]), features=features, labels=labels)
    settings = replace(SETTINGS, answer=AlternationTarget.RESPONSE, user_ridge=1e-9)

    curvature, gradient = alternation_rows(user.padded(), truth, settings, step_bound=0.7)

    matrix = unpack_kronecker(curvature[0] / GRID, DIMENSION, RANK)
    explained = matrix @ truth.ravel()
    np.testing.assert_allclose(explained, gradient[0] / GRID * 0.7, atol=1e-5)


@pytest.mark.parametrize("loss", list(LossName))
def test_curvature_and_gradient_are_those_of_the_loss(loss: LossName) -> None:
    settings = replace(SETTINGS, loss=loss, clip_norm=1e3, user_ridge=0.1)
    user, at = alone(population(4, binary=loss is LossName.LOGISTIC), 5).padded(), orthonormal(1)
    vector = fit_vectors(user, at, settings)[0]

    def total(point: FloatArray) -> float:
        scores = user.features[0] @ point.reshape(at.shape) @ vector
        if loss is LossName.SQUARED:
            return float(np.sum(0.5 * (scores - user.labels[0]) ** 2))
        return float(np.sum(np.logaddexp(0.0, scores) - user.labels[0] * scores))

    curvature, gradient = alternation_rows(user, at, settings, step_bound=1.0)

    h, start, axes = 1e-4, at.ravel(), np.eye(at.size)
    slopes = [(total(start + h * e) - total(start - h * e)) / (2 * h) for e in axes]
    np.testing.assert_allclose(gradient[0] / GRID * 1e3, -np.array(slopes), rtol=1e-3, atol=2e-3)
    bends = [(total(start + h * e) - 2 * total(start) + total(start - h * e)) / h**2 for e in axes]
    matrix = unpack_kronecker(curvature[0] / GRID * 1e3, DIMENSION, RANK)
    np.testing.assert_allclose(np.diag(matrix), bends, rtol=2e-2, atol=2e-2)


def test_the_start_sums_the_pairs_it_says() -> None:
    user = alone(population(5), 6).padded()
    x = user.features[0] / np.linalg.norm(user.features[0], axis=1, keepdims=True)
    z = user.labels[0][:, None] * x
    count = len(z)
    assert count >= 4
    everyone = sum(np.outer(z[a], z[b]) for a in range(count) for b in range(count) if a != b)
    halves = sum(0.5 * (np.outer(z[a], z[a + 1]) + np.outer(z[a + 1], z[a])) for a in range(0, count - 1, 2))

    for pairs, right in ((Pairs.ALL, everyone), (Pairs.DISJOINT, halves)):
        sent = initial_rows(user, replace(SETTINGS, pairs=pairs), clip_norm=SETTINGS.clip_norm)[0]
        np.testing.assert_allclose(unpack(sent / GRID, DIMENSION), right / np.linalg.norm(right), atol=1e-6)


def test_with_split_examples_the_vector_comes_from_the_first_half_and_the_answer_from_the_rest() -> None:
    settings = replace(SETTINGS, split_examples=True)
    user = alone(population(6), 1)
    half = int(user.indptr[1]) // 2
    swapped = Examples(
        indptr=user.indptr,
        features=user.features,
        labels=np.concatenate([user.labels[:half], -user.labels[half:]]),
    )

    before = alternation_rows(user.padded(), orthonormal(), settings, step_bound=100.0)
    after = alternation_rows(swapped.padded(), orthonormal(), settings, step_bound=100.0)

    np.testing.assert_array_equal(before[0], after[0])
    assert not np.array_equal(before[1], after[1])
