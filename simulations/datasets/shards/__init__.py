"""A sharded data set, as it lies on disk: many files, users whole in each, read a block of users at a time."""

from fedboard.simulations.datasets.shards.reading import ShardedRatings, load_shards, open_shards

__all__ = ["ShardedRatings", "load_shards", "open_shards"]
