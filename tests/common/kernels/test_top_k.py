import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.common.kernels import top_k


def problem(n_users=300, n_items=500, rank=6):
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
    given = problem()

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
    given = problem() | {"item_factors": np.zeros((500, 6), np.float32), "bias": np.zeros(500, np.float32)}
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
    given = problem()
    whole = top_k(**given, k=10, backend=backend)

    part = given | {
        "user_factors": given["user_factors"][77:],
        "exclude_indptr": given["exclude_indptr"][77:],
    }

    assert np.array_equal(whole, top_k(**given, k=10, backend=backend, threads=2))
    assert np.array_equal(whole[77:], top_k(**part, k=10, backend=backend))


def test_arrays_that_do_not_fit_are_refused(backend):
    given = problem()
    for name, value in (
        ("exclude_items", given["exclude_items"] + 499),
        ("bias", np.ones(3, np.float32)),
        ("k", 0),
    ):
        with pytest.raises(InputError):
            top_k(**({"k": 3} | given | {name: value}), backend=backend)
