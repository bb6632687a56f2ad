"""Facts about a sharded data set, for its owner's eyes: those of ``describe``, without holding it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.simulations.datasets.shards.reading import ShardedRatings
from fedboard.simulations.datasets.summary import TIMES, Counted, described

_BINS = 1 << 16
_RATINGS_AT_ONCE = 1 << 20


def describe_shards(shards: ShardedRatings, *, times: bool) -> dict[str, Any]:
    """Size, density and skew of a sharded data set, as ``describe`` tells them.

    Not guaranteed: any privacy. Everything here is exact, and ``note`` says so.

    Args:
        shards: the data set. Private.
        times: whether to tell when ratings were given.

    Raises:
        InputError: what is there cannot be read, or it does not say when.
    """
    counted = Counted(n_items=shards.n_items, rating_range=shards.rating_range)
    for start, stop in _blocks(shards):
        part = shards.read(start, stop)
        counted.add(part.counts, part.items, part.ratings)
    return described(
        counted,
        name=shards.name,
        titles=shards.titles is not None,
        test_ratings=None,
        times=[_order_statistic(shards, share) for share in TIMES.values()] if times else None,
    )


def _blocks(shards: ShardedRatings) -> Iterator[tuple[int, int]]:
    """Bounds of some users at a time, by the mean number of ratings; memory is of a block and its row groups."""
    step = max(1, _RATINGS_AT_ONCE * shards.n_users // max(shards.n_ratings, 1))
    for start in range(0, shards.n_users, step):
        yield start, min(start + step, shards.n_users)


def _order_statistic(shards: ShardedRatings, share: float) -> int:
    """The time up to which a share of the ratings was given: counted in ever narrower bins, a pass for each."""
    left = int(np.floor(share * (shards.n_ratings - 1)))
    extremes = [(times.min(), times.max()) for times in _times(shards)]
    low, high = (int(end) for end in (min(one for one, _ in extremes), max(one for _, one in extremes)))
    while low < high:
        width = -(-(high - low + 1) // _BINS)
        bins = np.zeros(_BINS, dtype=np.int64)
        for times in _times(shards):
            within = times[(times >= low) & (times <= high)]
            bins += np.bincount((within - low) // width, minlength=_BINS)
        ends = np.cumsum(bins)
        at = int(np.searchsorted(ends, left, side="right"))
        left -= int(ends[at - 1]) if at else 0
        low, high = low + at * width, min(low + (at + 1) * width - 1, high)
    return low


def _times(shards: ShardedRatings) -> Iterator[IntArray]:
    for start, stop in _blocks(shards):
        times = shards.times(start, stop)
        if times.size:
            yield times
