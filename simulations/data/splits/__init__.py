"""Splits into what is learnt from and what is judged on: by coins, or by time."""

from fedboard.simulations.data.splits.coins import SplitRule
from fedboard.simulations.data.splits.parts import HeldOut, RatingSplit, UserSplit
from fedboard.simulations.data.splits.splitting import RatingSplitting, Splitting, UserSplitting

__all__ = [
    "HeldOut",
    "RatingSplit",
    "RatingSplitting",
    "SplitRule",
    "Splitting",
    "UserSplit",
    "UserSplitting",
]
