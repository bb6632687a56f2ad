"""Whose ratings are on the devices: a file of triples, or made-up people of the same shape."""

from pathlib import Path

import numpy as np

from fedboard.common.cohort import Cohort, cohort_from_triples
from fedboard.simulations.datasets import SyntheticConfig, synthetic_ratings

ITEMS, RATINGS_EACH = 3449, 96.8
"""Of ml-1m-x12: items, and training ratings of a user."""


def people(data: Path | None, n_users: int) -> tuple[Cohort, tuple[str, ...]]:
    """So many users, and the ids of the items.

    Args:
        data: ``.npz`` with arrays ``user``, ``item``, ``rating`` and ``item_id``; None: made-up people.
        n_users: of the file, the first ones; more than it has begin again with its first.
    """
    if data is None:
        made = SyntheticConfig(n_users=n_users, n_items=ITEMS, mean_ratings_per_user=RATINGS_EACH)
        return synthetic_ratings(made).cohort(), tuple(str(number) for number in range(ITEMS))
    with np.load(data, allow_pickle=False) as file:
        user, item, rating, ids = (file[name] for name in ("user", "item", "rating", "item_id"))
    n_known = int(user.max()) + 1
    parts = [
        cohort_from_triples(user, item, rating, n_users=n_known, n_items=len(ids))
        for _ in range(1 if n_users <= n_known else 0)
    ]
    if not parts:
        raise SystemExit(
            f"{data} has {n_known} users, and {n_users} are wanted: fewer --devices, or --users 1"
        )
    return parts[0].rows(0, n_users), tuple(map(str, ids.tolist()))
