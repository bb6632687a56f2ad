"""A small population in which some users rated nothing, one rated every item, and one rated one."""

import numpy as np
import pytest

from fedboard.simulations.data import Ratings

N_USERS, N_ITEMS = 230, 60


def some_ratings(*, n_users: int = N_USERS, n_items: int = N_ITEMS, seed: int = 0) -> Ratings:
    rng = np.random.default_rng(seed)
    chosen = rng.random((n_users, n_items)) < rng.uniform(0, 0.5, (n_users, 1))
    chosen[::23] = False
    chosen[-1] = False  # nor has the last one rated anything
    chosen[7 % n_users] = True
    users, items = (part.astype(np.int32) for part in np.nonzero(chosen))
    return Ratings(
        users=users,
        items=items,
        values=rng.integers(1, 6, users.size).astype(np.float32),
        user_ids=np.arange(100, 100 + n_users),
        item_ids=np.array([f"i{number:03}" for number in range(n_items)]),
        titles=None,
        rating_range=(1.0, 5.0),
        name="made up",
        items_listed=True,
    )


@pytest.fixture(scope="session")
def ratings() -> Ratings:
    return some_ratings()
