"""Splits into what is learnt from and what is judged on: by coins, or by time."""

from fedboard.simulations.data.splits.by_coins import split_ratings, split_users
from fedboard.simulations.data.splits.by_time import split_lists_by_time, split_ratings_by_time
from fedboard.simulations.data.splits.parts import HeldOut, RatingSplit, SplitRule, UserSplit

__all__ = [
    "HeldOut",
    "RatingSplit",
    "SplitRule",
    "UserSplit",
    "split_lists_by_time",
    "split_ratings",
    "split_ratings_by_time",
    "split_users",
]
