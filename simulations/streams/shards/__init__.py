"""Ratings in many files, users whole in each: made of any source by sorting on disk, in memory that is stated."""

from fedboard.simulations.data.named import is_sharded
from fedboard.simulations.data.shards import ShardedRatings, open_shards
from fedboard.simulations.data.summary import describe_shards
from fedboard.simulations.streams.shards.sharding import ShardOptions, shard_ratings

__all__ = [
    "ShardOptions",
    "ShardedRatings",
    "describe_shards",
    "is_sharded",
    "open_shards",
    "shard_ratings",
]
