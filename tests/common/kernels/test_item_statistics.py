"""Sums over all pairs of entries of a row: exact, in every backend."""

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from fedboard.common.errors import InputError
from fedboard.common.kernels import item_statistics, pair_sums
from tests.common.kernels.conftest import COMPILED

SHORTS = st.integers(-(1 << 15), (1 << 15) - 1)

COORDINATES = st.integers(-4096, 4096) | st.sampled_from([-4096, -1, 0, 1, 4096])


def problem(pattern, rank, extreme=False):
    """Item-major ratings; the permutation stands for the map from user-major to item-major order."""
    rng = np.random.default_rng(rank)
    n_ratings = pattern.columns.size
    vectors = rng.integers(-4096, 4097, (pattern.n_columns, rank))
    weights = rng.integers(0, 16385, n_ratings)
    responses = rng.integers(-4096, 4097, n_ratings)
    if extreme:
        vectors, weights, responses = np.full_like(vectors, -4096), weights * 0 + 32767, responses * 0 - 32768
    return {
        "indptr": pattern.indptr,
        "users": pattern.columns,
        "entries": rng.permutation(n_ratings),
        "vectors": vectors.astype(np.int16),
        "weights": weights.astype(np.int16),
        "responses": responses.astype(np.int16),
    }


def sums_by_definition(given):
    """Python's own integers: no overflow, no rounding."""
    vectors, rank = given["vectors"].astype(object), given["vectors"].shape[1]
    upper = np.triu_indices(rank)
    weights, responses = given["weights"].astype(object), given["responses"].astype(object)
    squares, linear = [], []
    for first, last in zip(given["indptr"][:-1], given["indptr"][1:], strict=True):
        rated = vectors[given["users"][first:last]].reshape(-1, rank)
        w, r = weights[given["entries"][first:last]], responses[given["entries"][first:last]]
        squares.append(((rated.T * w) @ rated + np.zeros((rank, rank), object))[upper])
        linear.append(rated.T @ (w * r) + np.zeros(rank, object))
    return np.array(squares).astype(np.int64), np.array(linear).astype(np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [1, 3, 8, 16])
@pytest.mark.parametrize("extreme", [False, True])
def test_sums_equal_those_of_unbounded_integers(backend, pattern, rank, extreme):
    given = problem(pattern, rank, extreme)

    squares, linear = item_statistics(**given, start=0, stop=pattern.n_rows, backend=backend)

    expected_squares, expected_linear = sums_by_definition(given)
    assert np.array_equal(squares, expected_squares)
    assert np.array_equal(linear, expected_linear)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [3, 16, 64])
def test_threads_and_splits_do_not_show(backend, pattern, rank):
    given = problem(pattern, rank)
    whole = item_statistics(**given, start=0, stop=pattern.n_rows, backend=backend, threads=2)

    parts = [
        item_statistics(**given, start=a, stop=b, backend=backend) for a, b in ((0, 5), (5, pattern.n_rows))
    ]

    for together, first, second in zip(whole, *parts, strict=True):
        assert np.array_equal(together, np.concatenate([first, second]))


def test_weights_and_responses_may_lie_side_by_side(backend, pattern):
    given = problem(pattern, 7) | {"start": 0, "stop": pattern.n_rows, "backend": backend}
    both = np.stack([given["weights"], given["responses"]], axis=1)

    together = item_statistics(**(given | {"weights": both[:, 0], "responses": both[:, 1]}))

    for sums, expected in zip(together, item_statistics(**given), strict=True):
        assert np.array_equal(sums, expected)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("users", np.array([2], np.int32)),
        ("entries", np.array([-1], np.int64)),
        ("vectors", np.full((2, 8), 4097, np.int16)),
        ("weights", np.ones(2, np.int16)),
        ("indptr", np.array([0, 2], np.int64)),
        ("stop", 2),
    ],
)
def test_arrays_that_do_not_fit_are_refused(backend, name, value):
    given = {
        "indptr": np.array([0, 1], np.int64),
        "users": np.array([1], np.int32),
        "entries": np.array([0], np.int64),
        "vectors": np.ones((2, 8), np.int16),
        "weights": np.ones(1, np.int16),
        "responses": np.ones(1, np.int16),
        "start": 0,
        "stop": 1,
    }

    with pytest.raises(InputError):
        item_statistics(**(given | {name: value}), backend=backend)


@COMPILED
@pytest.mark.parametrize(
    ("coordinate", "weight", "response"),
    [
        (
            -4096,
            1,
            0,
        ),  # all of w v is in the low half, -2^12: each rating adds 2^24 to a sum, 128 of them 2^31
        (4096, 1, 0),
        (-4096, -(1 << 15), -(1 << 15)),  # the largest high half
        (4096, -(1 << 15), -(1 << 15)),
        (-4096, (1 << 15) - 1, (1 << 15) - 1),
        (-4096, 2047, 1),  # the largest lowest part of w r
    ],
)
@pytest.mark.parametrize("n_ratings", [31, 32, 127, 128, 129, 1000, 70_001])
def test_sums_in_32_bits_are_moved_before_they_overflow(coordinate, weight, response, n_ratings):
    given = {
        "indptr": np.array([0, n_ratings], np.int64),
        "users": np.zeros(n_ratings, np.int32),
        "entries": np.arange(n_ratings),
        "vectors": np.full((1, 3), coordinate, np.int16),
        "weights": np.full(n_ratings, weight, np.int16),
        "responses": np.full(n_ratings, response, np.int16),
    }

    squares, linear = item_statistics(**given, start=0, stop=1, backend="compiled")

    assert np.all(squares == n_ratings * weight * coordinate**2)
    assert np.all(linear == n_ratings * weight * response * coordinate)


@COMPILED
def test_processors_without_these_instructions_compute_the_same(monkeypatch):
    import numba

    from fedboard.common.kernels.compiled import item_statistics as statistics
    from fedboard.common.kernels.compiled import panels, vectors

    def halves_and_products(numbers, weights, plain, low, high, sums):
        statistics.split_pair(numbers, 0, lanes, 0, lanes, weights, 0, plain, low, high, 0, 1)
        panels.add_tile(plain, 0, 1, low, 0, lanes, 1, sums, 0, lanes, 1, 1)

    def outcome():
        plain, low, high, sums = (np.zeros(lanes, np.int32) for _ in range(4))
        numba.njit(halves_and_products)(numbers, weights.view(np.int32), plain, low, high, sums)
        return [array.view(np.int16) for array in (plain, low, high)], sums

    lanes = vectors.VECTOR_BYTES // 4
    numbers = np.random.default_rng(4).integers(-4096, 4097, 2 * lanes).astype(np.int16)
    numbers[:4] = -4096, 4096, 0, 1
    weights = np.array([-(1 << 15), 16_384], np.int16)

    here = outcome()
    for module, name in ((vectors, "PAIR_PRODUCTS"), (statistics, "ROUNDED_PRODUCTS")):
        monkeypatch.setattr(module, name, "")
    elsewhere = outcome()

    for (plain, low, high), sums in (here, elsewhere):
        assert np.array_equal(plain.reshape(-1, 2).T, numbers.reshape(2, -1))
        weighted = numbers.reshape(2, -1).astype(np.int64) * weights[:, np.newaxis]
        both = (high.astype(np.int64) << statistics.SPLIT_BITS) + low
        assert np.array_equal(both.reshape(-1, 2).T, weighted)
        assert np.all(np.abs(low.astype(np.int64)) <= 1 << 12)
        assert np.array_equal(sums, plain[:2].astype(np.int64) @ low.reshape(-1, 2).T)


@COMPILED
@settings(max_examples=60, deadline=None)
@drawn(
    rank=st.sampled_from([1, 2, 7, 16, 17, 33, 64]),
    ratings=st.lists(st.tuples(st.integers(0, 2), SHORTS, SHORTS), min_size=1, max_size=20),
    coordinates=st.lists(COORDINATES, min_size=1, max_size=9),
    copies=st.sampled_from([1, 2, 31, 64]),
)
def test_any_numbers_give_the_bits_of_the_reference(rank, ratings, coordinates, copies):
    users, weights, responses = (np.tile(column, copies) for column in zip(*ratings, strict=True))
    given = {
        "indptr": np.array([0, users.size], np.int64),
        "users": users.astype(np.int32),
        "entries": np.arange(users.size),
        "vectors": np.resize(coordinates, (3, rank)).astype(np.int16),
        "weights": weights.astype(np.int16),
        "responses": responses.astype(np.int16),
        "start": 0,
        "stop": 1,
    }

    squares, linear = item_statistics(**given, backend="compiled")

    expected_squares, expected_linear = item_statistics(**given, backend="numpy")
    assert np.array_equal(squares, expected_squares)
    assert np.array_equal(linear, expected_linear)


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
def test_pairs_that_do_not_fit_are_refused(backend, indptr, items, n_responses):
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
