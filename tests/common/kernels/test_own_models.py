"""Own models with content: a dense Gaussian process is the reference, whatever the backend."""

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import solve_own_models
from fedboard.common.kernels.solves import CONTENT_RIDGES

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


def test_backends_agree_to_rounding_and_a_row_depends_on_itself_alone(backend, given, pattern):
    solved, chosen = solve_own_models(**given, backend=backend)

    reference, ridges = solve_own_models(**given, backend="numpy")
    np.testing.assert_allclose(solved, reference, rtol=0, atol=1e-6)
    np.testing.assert_allclose(chosen, ridges, rtol=1e-6)
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
