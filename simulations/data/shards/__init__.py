"""A sharded data set, as it lies on disk: many files, users whole in each, read a block of users at a time."""

from fedboard.simulations.data.shards.reading import ShardedRatings, open_shards

__all__ = ["ShardedRatings", "open_shards"]
