"""A sharded data set that fits into memory, as any other: for what does not go through blocks."""

from pathlib import Path

import numpy as np

from fedboard.simulations.datasets.ratings import Ratings
from fedboard.simulations.datasets.shards.reading import open_shards


def load_shards(path: str | Path, *, times: bool = False) -> Ratings:
    """All ratings of a sharded data set.

    Users are numbered and have the keys that they have in the stream; their ids are not in the shards.

    Args:
        path: of the folder.
        times: whether to read when they were given.

    Raises:
        InputError: it cannot be read, or does not say when.
    """
    shards = open_shards(path)
    everybody = shards.read(0, shards.n_users)
    return Ratings(
        users=everybody.user_of_entry(),
        items=everybody.items,
        values=everybody.ratings,
        user_ids=np.arange(shards.n_users, dtype=np.int64),
        item_ids=shards.item_ids,
        titles=shards.titles,
        rating_range=shards.rating_range,
        name=shards.name,
        items_listed=shards.items_listed,
        presence=shards.presence,
        times=shards.times(0, shards.n_users) if times else None,
        keys=everybody.user_keys,
    )
