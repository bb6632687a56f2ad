"""Sums over pairs of items against the dense, obvious product."""

import numpy as np
import pytest

from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import InputError
from fedboard.common.protocols.sums.exact import FactoredSums, whole_sums
from fedboard.common.tasks.residual.config import Start
from fedboard.common.tasks.residual.releases import spectral_start
from tests.common.tasks.conftest import a_residual_task

N_ITEMS = 14


def a_request(n_items: int = N_ITEMS) -> Request:
    (request,) = spectral_start(a_residual_task(start=Start.SPECTRAL).settings, n_items=n_items)
    return request


def dense_rows(n_users: int, seed: int = 0, n_items: int = N_ITEMS) -> np.ndarray:
    """Numbers as large as a row can hold, most of them missing; some users have none."""
    rng = np.random.default_rng(seed)
    z = rng.integers(-4096, 4097, (n_users, n_items))
    return z * (rng.random((n_users, n_items)) < rng.choice([0.0, 0.1, 0.5, 1.0], (n_users, 1)))


def contribution_of(z: np.ndarray) -> Contribution:
    users, items = np.nonzero(z)
    indptr = np.zeros(len(z) + 1, dtype=np.int64)
    np.cumsum(np.bincount(users, minlength=len(z)), out=indptr[1:])
    return Contribution(
        n_items=z.shape[1],
        indptr=indptr,
        items=items.astype(np.int32),
        responses=z[users, items].astype(np.int16),
    )


def packed(z: np.ndarray) -> np.ndarray:
    return (z.T @ z)[np.triu_indices(z.shape[1])][None, :]


@pytest.mark.parametrize("n_users", [0, 1, 500, 8192, 8193, 20_000])
def test_pair_sums_are_the_dense_product_over_any_number_of_blocks(n_users: int) -> None:
    z = dense_rows(n_users)

    found = whole_sums(FactoredSums.of(contribution_of(z)), [a_request()])["pairs"]

    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, packed(z))


def test_pair_sums_of_the_kept_rows_only() -> None:
    z, keep = dense_rows(300), np.random.default_rng(1).random(300) < 0.7

    sums = FactoredSums.of(contribution_of(z), keep=keep)

    assert sums.rejected_rows == np.count_nonzero(~keep)
    np.testing.assert_array_equal(whole_sums(sums, [a_request()])["pairs"], packed(z[keep]))


def test_pair_sums_without_responses_are_refused() -> None:
    rows = Contribution(n_items=2, indptr=np.array([0, 1]), items=np.array([0], dtype=np.int32))

    with pytest.raises(InputError, match="need responses"):
        whole_sums(FactoredSums.of(rows), [a_request(2)])
