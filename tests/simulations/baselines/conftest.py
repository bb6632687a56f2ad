"""A tiny population with the cases that break models: a user and an item without ratings, and a single rating."""

import numpy as np
import pytest

from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.common.kernels.backends import has_compiler

COMPILED = pytest.mark.skipif(not has_compiler(), reason="numba is not installed")
EMPTY_USER, EMPTY_ITEM = 4, 7


@pytest.fixture(params=["numpy", pytest.param("compiled", marks=COMPILED)])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def population(*, implicit: bool) -> Cohort:
    rng = np.random.default_rng(2)
    rated = rng.random((30, 18)) < 0.4
    rated[EMPTY_USER], rated[:, EMPTY_ITEM] = False, False
    rated[5] = np.arange(18) == 3
    users, items = np.nonzero(rated)
    values = np.ones(users.size) if implicit else rng.integers(1, 6, users.size)
    return cohort_from_triples(
        users.astype(np.int32), items.astype(np.int32), values.astype(np.float32), n_users=30, n_items=18
    )


@pytest.fixture(scope="session")
def ratings() -> Cohort:
    return population(implicit=False)


@pytest.fixture(scope="session")
def choices() -> Cohort:
    return population(implicit=True)
