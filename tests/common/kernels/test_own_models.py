"""Own models with content: a dense Gaussian process is the reference, whatever the backend.

What a ridge does for ratings that were left out: held against solving again without each.
"""

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import left_out_errors, solve_own_models
from fedboard.common.kernels.solves import CONTENT_RIDGES, MOST_LEFT_OUT

WIDTH, CONTENT = 5, 30


@pytest.fixture(scope="module")
def given(pattern):
    rng = np.random.default_rng(5)
    content = rng.standard_normal((pattern.n_columns, CONTENT))
    content /= np.linalg.norm(content, axis=1, keepdims=True)
    content[::7] = 0.0  # items of which nothing is known
    return {
        "indptr": pattern.indptr,
        "items": pattern.columns,
        "targets": rng.standard_normal(pattern.columns.size).astype(np.float32),
        "vectors": (0.5 * rng.standard_normal((pattern.n_columns, WIDTH))).astype(np.float32),
        "content": content.astype(np.float32),
        "ridge": rng.uniform(0.5, 9.0, pattern.n_rows).astype(np.float32),
    }


def row_of(given, row):
    entries = slice(given["indptr"][row], given["indptr"][row + 1])
    items = given["items"][entries]
    x, phi = (given[name][items].astype(np.float64) for name in ("vectors", "content"))
    return x, phi, given["targets"][entries].astype(np.float64)


def covariance(x, phi, own, of_content):
    return np.eye(x.shape[0]) + x @ x.T / own + phi @ phi.T / of_content


def log_evidence(covariance_matrix, targets):
    _, log_det = np.linalg.slogdet(covariance_matrix)
    left = targets @ np.linalg.solve(covariance_matrix, targets)
    return -0.5 * targets.size * np.log(left) - 0.5 * log_det


def test_each_row_is_the_posterior_mean_of_a_dense_gaussian_process(backend, given):
    solved, chosen = solve_own_models(**given, backend=backend)

    everything = np.hstack([given["vectors"], given["content"]]).astype(np.float64)
    lengths = np.diff(given["indptr"])
    assert {0, 1, 600} <= set(lengths.tolist())  # none, fewer and more ratings than coordinates
    for row in np.flatnonzero(lengths):
        x, phi, targets = row_of(given, row)
        own = float(given["ridge"][row])
        evidence = np.array(
            [log_evidence(covariance(x, phi, own, ridge), targets) for ridge in (*CONTENT_RIDGES, np.inf)]
        )
        shares = np.exp(evidence - evidence.max()) / np.exp(evidence - evidence.max()).sum()
        assert chosen[row] == pytest.approx(
            1 / np.sum(shares / np.array([*CONTENT_RIDGES, np.inf])), rel=1e-6
        )
        across = given["vectors"] @ x.T / own + given["content"] @ phi.T / chosen[row]
        expected = across @ np.linalg.solve(covariance(x, phi, own, chosen[row]), targets)
        np.testing.assert_allclose(everything @ solved[row], expected, rtol=0, atol=1e-6)
    assert not solved[lengths == 0].any()


def test_a_row_depends_on_itself_alone(backend, given):
    solved, _ = solve_own_models(**given, backend=backend)

    first, last = given["indptr"][5], given["indptr"][6]
    alone = {
        **given,
        "indptr": np.array([0, last - first]),
        "items": given["items"][first:last],
        "targets": given["targets"][first:last],
        "ridge": given["ridge"][5:6],
    }
    np.testing.assert_array_equal(solve_own_models(**alone, backend=backend)[0][0], solved[5])


@pytest.mark.parametrize("size", [5, 30, 600])
def test_a_board_of_huge_numbers_fails_for_nobody(backend, size):
    """As large as a device takes them, and collinear: whoever rated such items gets numbers, not an error."""
    rng = np.random.default_rng(0)
    vectors = (1e6 * np.outer(rng.standard_normal(700), [1.0, 2.0, -1.0])).astype(np.float32)
    solved, chosen = solve_own_models(
        np.array([0, size]),
        np.arange(size, dtype=np.int32),
        rng.standard_normal(size).astype(np.float32),
        vectors,
        (rng.standard_normal((700, CONTENT)) / np.sqrt(CONTENT)).astype(np.float32),
        ridge=np.array([1e-3], dtype=np.float32),
        backend=backend,
    )

    assert np.isfinite(solved).all()
    assert chosen[0] >= CONTENT_RIDGES[0] - 1e-9


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("items", np.full(3, 700, np.int32), "fit together"),
        ("ridge", np.zeros(1, np.float32), "fit together"),
        ("indptr", np.array([1, 0]), "fit together"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(backend, given, name, value, message):
    with pytest.raises(InputError, match=message):
        solve_own_models(**{**given, name: value}, backend=backend)


def test_items_out_of_range_and_ridges_of_zero_are_refused(backend, given):
    beyond = given["items"].copy()
    beyond[3] = given["vectors"].shape[0]
    with pytest.raises(InputError, match="row numbers"):
        solve_own_models(**{**given, "items": beyond}, backend=backend)
    with pytest.raises(InputError, match="ridge must be > 0"):
        solve_own_models(**{**given, "ridge": 0 * given["ridge"]}, backend=backend)


RIDGES, BIAS_RIDGE = np.array([0.3, 3.0, 40.0]), 2.0


@pytest.fixture(scope="module")
def rated(pattern):
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


def expected_row(rated, row):
    entries = slice(rated["indptr"][row], rated["indptr"][row + 1])
    wanted = rated["targets"][entries].astype(np.float64)
    if wanted.size < 2:
        return np.zeros(RIDGES.size)
    constant = np.ones((wanted.size, 1))
    columns = np.hstack([constant, rated["factors"][rated["items"][entries]].astype(np.float64)])
    own = rated["growth"][row]
    alone = really_left_out(constant, wanted, [own * BIAS_RIDGE])
    return [
        really_left_out(columns, wanted, own * np.array([BIAS_RIDGE, *[ridge] * 4])) - alone
        for ridge in RIDGES
    ]


def test_errors_are_those_of_solving_again_without_each_rating(backend, rated):
    found = left_out_errors(**rated, backend=backend)

    lengths = np.diff(rated["indptr"])
    assert {0, 1, 2, 600} <= set(lengths.tolist())  # nothing to leave out, one other, more than are left out
    for row in range(lengths.size):
        np.testing.assert_allclose(found[row], expected_row(rated, row), rtol=1e-8, atol=1e-8)
    assert np.count_nonzero(found) == RIDGES.size * np.count_nonzero(lengths > 1)


def test_ridges_side_by_side_give_the_bits_of_each_alone(backend, rated):
    """More than there are lanes in a vector, and lanes do not divide them."""
    many = np.geomspace(0.1, 50.0, 11)
    found = left_out_errors(**{**rated, "ridges": many}, backend=backend)
    for number in range(many.size):
        alone = left_out_errors(**{**rated, "ridges": many[number : number + 1]}, backend=backend)
        np.testing.assert_array_equal(found[:, number], alone[:, 0])


def test_a_row_does_not_see_the_others(backend, rated):
    whole = left_out_errors(**rated, backend=backend)
    for row in (2, 4, 9):
        first, last = rated["indptr"][row], rated["indptr"][row + 1]
        part = {
            "items": rated["items"][first:last],
            "targets": rated["targets"][first:last],
        }
        alone = {"indptr": np.array([0, last - first]), "growth": rated["growth"][row : row + 1]}

        found = left_out_errors(**{**rated, **part, **alone}, backend=backend)

        np.testing.assert_array_equal(found[0], whole[row])


def test_absurd_factors_raise_nothing(backend, rated):
    """A leverage that rounds to 1 is for the caller to look for: an error would tell who rated such an item."""
    absurd = {
        **rated,
        "factors": np.full_like(rated["factors"], 1e6),
        "ridges": np.array([1e-3]),
    }
    with np.errstate(all="ignore"):
        found = left_out_errors(**absurd, backend=backend)
    assert found.shape == (rated["growth"].size, 1)


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
def test_left_out_arrays_that_do_not_fit_are_refused(backend, wrong):
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
