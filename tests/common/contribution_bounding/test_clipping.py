import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedboard.common.contribution_bounding.clipping import (
    LINEAR_BOUND,
    QUADRATIC_BOUND,
    RESPONSE_BOUND,
    VECTOR_BOUND,
    WEIGHT_ONE,
    check_rows,
    clip_responses,
    clip_vectors,
    quantise_weights,
)
from fedboard.common.errors import InputError, PrivacyError

INDPTR = np.array([0, 2, 2, 5], dtype=np.int64)
ITEMS = np.array([1, 4, 0, 2, 3], dtype=np.int32)
VECTORS = np.array([[VECTOR_BOUND, 0], [0, 0], [2896, 2896]], dtype=np.int16)
WEIGHTS = np.array([WEIGHT_ONE, 0, 9459, 9459, 9459], dtype=np.int16)
RESPONSES = np.array([RESPONSE_BOUND, -RESPONSE_BOUND, 0, 7, -7], dtype=np.int16)


def checked(**changes):
    given_rows = {"vectors": VECTORS, "weights": WEIGHTS, "responses": RESPONSES, "n_items": 5, **changes}
    indptr, items = given_rows.pop("indptr", INDPTR), given_rows.pop("items", ITEMS)
    return check_rows(indptr, items, **given_rows)


def changed(array, position, value):
    copy = array.copy()
    copy[position] = value
    return copy


def exact_squares(array):
    return [sum(int(x) ** 2 for x in row) for row in array]


@settings(max_examples=60, deadline=None)
@given(
    vectors=arrays(
        np.float64, st.tuples(st.integers(0, 5), st.integers(1, 6)), elements=st.floats(-1e140, 1e140)
    ),
    clip_norm=st.floats(1e-6, 1e6),
)
def test_clipped_vectors_keep_their_norm_in_exact_integers(vectors, clip_norm):
    clipped = clip_vectors(vectors, clip_norm)

    assert clipped.dtype == np.int16
    assert all(square <= VECTOR_BOUND**2 for square in exact_squares(clipped))


def test_heavy_tailed_vectors_are_clipped_to_their_direction_and_short_ones_kept():
    rng = np.random.default_rng(2)
    vectors = rng.standard_cauchy((5000, 16))
    clipped = clip_vectors(vectors, 2.0) * (2.0 / VECTOR_BOUND)

    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    wanted = vectors * np.minimum(1.0, 2.0 / norms)

    assert (norms > 2.0).mean() > 0.9
    assert np.linalg.norm(clipped, axis=1).max() <= 2.0
    assert np.abs(clipped - wanted).max() < 2.0 / VECTOR_BOUND + 1e-9
    assert (np.abs(clipped) <= np.abs(wanted) + 1e-12).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
def test_numbers_that_are_not_finite_are_refused_everywhere(value):
    with pytest.raises(PrivacyError, match="finite"):
        clip_vectors(np.array([[0.1, value], [0.2, 0.3]]), 1.0)
    with pytest.raises(PrivacyError):
        quantise_weights(np.array([0.1, value]))
    if not np.isfinite(value):
        with pytest.raises(PrivacyError, match="finite"):
            clip_responses(np.array([0.1, value]), 1.0)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.inf, np.nan])
def test_a_clipping_bound_that_bounds_nothing_is_refused(bound):
    with pytest.raises(PrivacyError, match="clip_norm must be"):
        clip_vectors(np.zeros((1, 2)), bound)
    with pytest.raises(PrivacyError, match="bound must be"):
        clip_responses(np.zeros(2), bound)


def test_responses_are_clipped_and_truncated_toward_zero():
    responses = np.array([0.0, 1e9, -1e9, 2.5, -2.5, 2.5 * 1.9 / 4096, -2.5 * 1.9 / 4096])

    assert clip_responses(responses, 2.5).tolist() == [0, 4096, -4096, 4096, -4096, 1, -1]


@settings(max_examples=60, deadline=None)
@given(raw=arrays(np.float64, st.integers(1, 40), elements=st.floats(1e-6, 1.0)))
def test_normalised_weights_never_exceed_one_on_the_grid(raw):
    weights = raw / np.sqrt(np.sum(raw**2))

    assert exact_squares([quantise_weights(weights)])[0] <= WEIGHT_ONE**2


@pytest.mark.parametrize("weight", [-1e-9, 1.1])
def test_weights_out_of_range_are_refused(weight):
    with pytest.raises(PrivacyError, match=r"\[0, 1\]"):
        quantise_weights(np.array([0.5, weight]))


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({"vectors": changed(VECTORS, (0, 1), 1)}, 0),
        ({"vectors": changed(VECTORS, (2, 0), 2897)}, 2),
        ({"vectors": changed(VECTORS, (1, 0), -32768)}, 1),
        ({"weights": changed(WEIGHTS, 1, 1)}, 0),
        ({"weights": changed(WEIGHTS, 1, -1)}, 0),
        ({"weights": changed(WEIGHTS, 4, 9461)}, 2),
        ({"weights": changed(WEIGHTS, 4, -9459)}, 2),
        ({"weights": changed(WEIGHTS, 4, -32768)}, 2),
        ({"responses": changed(RESPONSES, 1, -RESPONSE_BOUND - 1)}, 0),
        ({"responses": changed(RESPONSES, 3, RESPONSE_BOUND + 1)}, 2),
        ({"responses": changed(RESPONSES, 3, -32768)}, 2),
        ({"items": changed(ITEMS, 4, 2)}, 2),
        ({"items": changed(ITEMS, 0, 4)}, 0),
        ({"items": changed(ITEMS, 3, 4)}, 2),
        ({"items": changed(ITEMS, 4, 5)}, 2),
        ({"items": changed(ITEMS, 2, -1)}, 2),
    ],
)
def test_the_row_that_breaks_a_bound_is_found_and_no_other(changes, row):
    assert np.flatnonzero(checked(**changes)).tolist() == [row]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_check_agrees_with_a_slow_count_in_python_integers(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, 6)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    widest = rng.random() < 0.2  # all that int16 holds, not only what is near the bounds
    low, high = (-32768, 32768) if widest else (-3500, 3501)
    vectors = rng.integers(low, high, (6, 2)).astype(np.int16)
    weights = rng.integers(low if widest else -100, 32768 if widest else 12000, indptr[-1]).astype(np.int16)
    responses = rng.integers(low if widest else -4150, 32768 if widest else 4150, indptr[-1]).astype(np.int16)
    items = rng.integers(-1, 40, indptr[-1]).astype(np.int32)
    bound = int(rng.integers(1, LINEAR_BOUND))
    if rng.random() < 0.5:  # the first row's own, to the last unit
        part, norm = slice(indptr[0], indptr[1]), exact_squares(vectors)[0]
        pairs = zip(weights[part].tolist(), responses[part].tolist(), strict=True)
        exact = math.isqrt(sum((w * r) ** 2 for w, r in pairs) * norm)
        bound = min(max(exact + int(rng.integers(0, 2)), 1), LINEAR_BOUND)

    found = check_rows(
        indptr, items, n_items=39, vectors=vectors, weights=weights, responses=responses, joint_bound=bound
    )

    for row in range(6):
        part = slice(indptr[row], indptr[row + 1])
        w, r, i = (list(map(int, x[part])) for x in (weights, responses, items))
        norm = exact_squares(vectors)[row]
        broken = norm > VECTOR_BOUND**2 or sum(x * x for x in w) > WEIGHT_ONE**2 or min(w, default=0) < 0
        broken = broken or any(abs(x) > RESPONSE_BOUND for x in r)
        broken = broken or i != sorted(set(i)) or any(not 0 <= x < 39 for x in i)
        broken = broken or sum((a * b) ** 2 for a, b in zip(w, r, strict=True)) * norm > bound**2
        assert found[row] == broken


def test_the_joint_bound_is_exact_to_the_last_unit():
    # One item: |w r| |v| = 9459 * 7 * 2500 exactly.
    vectors = np.array([[1500, 2000]], dtype=np.int16)
    one = {"vectors": vectors, "weights": WEIGHTS[2:3], "responses": RESPONSES[3:4]}
    exact = 9459 * 7 * 2500
    indptr, items = np.array([0, 1], dtype=np.int64), ITEMS[:1]

    for bound, broken in ((exact, False), (exact - 1, True), (LINEAR_BOUND, False)):
        assert check_rows(indptr, items, n_items=5, joint_bound=bound, **one).tolist() == [broken]


def test_responses_that_are_bounded_together_are_kept_up_to_the_last_unit():
    indptr, items = np.array([0, 2], dtype=np.int64), ITEMS[:2]

    for second, broken in ((0, False), (1, True)):
        responses = np.array([RESPONSE_BOUND, second], dtype=np.int16)
        assert check_rows(indptr, items, n_items=5, responses=responses, unit_responses=True).tolist() == [
            broken
        ]
        assert check_rows(indptr, items, n_items=5, responses=responses).tolist() == [False]


def test_the_largest_honest_contribution_fits_the_joint_bound_and_the_stacks_their_bounds():
    full = {
        "vectors": VECTORS[:1],
        "weights": np.array([WEIGHT_ONE], dtype=np.int16),
        "responses": np.array([-RESPONSE_BOUND], dtype=np.int16),
    }
    indptr, items = np.array([0, 1], dtype=np.int64), ITEMS[:1]

    assert QUADRATIC_BOUND == WEIGHT_ONE * VECTOR_BOUND**2 == 2**38
    assert not check_rows(indptr, items, n_items=5, joint_bound=LINEAR_BOUND, **full).any()
    assert check_rows(indptr, items, n_items=5, joint_bound=LINEAR_BOUND - 1, **full).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"indptr": np.array([0, 2, 5], dtype=np.int64)},
        {"indptr": np.array([0, 3, 2, 5], dtype=np.int64)},
        {"indptr": np.array([1, 2, 2, 5], dtype=np.int64)},
        {"indptr": np.array([0, 2, 2, 6], dtype=np.int64)},
        {"indptr": np.array([0, 2**63 - 1, -2, 5], dtype=np.int64)},  # its differences, in 64 bits, are >= 0
        {"indptr": np.array([0, 2**63 - 1, -2, 5], dtype=np.int64), "weights": None, "responses": None},
        {"indptr": INDPTR.astype(np.int32)},
        {"items": ITEMS.astype(np.int64)},
        {"vectors": VECTORS.astype(np.float64)},
        {"vectors": VECTORS[:2]},
        {"vectors": VECTORS.ravel()},
        {"weights": WEIGHTS[:4]},
        {"weights": WEIGHTS.astype(np.float32)},
        {"responses": RESPONSES.astype(np.int32)},
        {"joint_bound": 0},
        {"joint_bound": LINEAR_BOUND + 1},
        {"joint_bound": 5, "responses": None},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changes):
    with pytest.raises(InputError):
        checked(**changes)


def test_a_vector_at_the_bound_uses_all_of_it():
    assert clip_vectors(np.array([[0.0, -0.5], [0.0, 0.0]]), 0.5).tolist() == [[0, -VECTOR_BOUND], [0, 0]]
    assert clip_vectors(np.array([[30.0, 40.0]]), 0.5).tolist() == [[2457, 3276]]


def test_rows_at_their_bounds_are_kept():
    assert exact_squares(VECTORS)[0] == VECTOR_BOUND**2
    assert checked().tolist() == [False, False, False]
    assert check_rows(INDPTR, ITEMS, n_items=5).tolist() == [False, False, False]
