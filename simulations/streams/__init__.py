"""Ratings of any number of users, read a block of them at a time; and the sums over a span of them."""

from fedboard.simulations.streams.spans import SpanSums, SpanWork, sums_of_span
from fedboard.simulations.streams.splitting import RatingSplitting, Splitting, UserSplitting
from fedboard.simulations.streams.stream import HeldStream, UserStream

__all__ = [
    "HeldStream",
    "RatingSplitting",
    "SpanSums",
    "SpanWork",
    "Splitting",
    "UserSplitting",
    "UserStream",
    "sums_of_span",
]
