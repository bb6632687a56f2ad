"""A stream with its split, block by block: what judges streamed people, or fits a model to them, reads. Private."""

from collections.abc import Iterator
from dataclasses import dataclass

from fedboard.common.cohort import Cohort
from fedboard.simulations.datasets.splits import RatingSplit, UserSplit
from fedboard.simulations.streams.spans import blocks_of, item_keys_of
from fedboard.simulations.streams.splitting import Splitting
from fedboard.simulations.streams.stream import UserStream

BLOCK_RATINGS = 1 << 19
"""Of a block, unless somebody says otherwise: lists of its users take as much again as what is read of them."""
_FEWEST_PER_SPAN, _MOST_PER_SPAN = 1 << 13, 1 << 18
_SPANS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBlocks:
    """Picklable and as small as the stream; memory is of one block, whatever the number of users."""

    stream: UserStream
    splitting: Splitting
    block_ratings: int = BLOCK_RATINGS
    """At most so many ratings are read at once, or one user's."""

    @property
    def n_users(self) -> int:
        """Rows are 0..n_users - 1."""
        return self.stream.n_users

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.stream.n_items

    def blocks(self, start: int, stop: int) -> Iterator[RatingSplit | UserSplit]:
        """The splits of users start:stop, in the order of their rows; rows of each are counted from its first."""
        keys = item_keys_of(self.stream)
        for block in blocks_of(self.stream, start, stop, self.block_ratings):
            yield self.splitting.split(block, keys)

    def train(self, start: int, stop: int) -> Iterator[Cohort]:
        """What a board is learnt from of users start:stop, in the order of their rows."""
        keys = item_keys_of(self.stream)
        for block in blocks_of(self.stream, start, stop, self.block_ratings):
            yield self.splitting.train(block, keys)


def span_bounds(n_users: int) -> list[tuple[int, int]]:
    """Users cut into jobs, by how many there are alone, so that who computes never changes a sum.

    Args:
        n_users: whose rows are 0..n_users - 1.

    Returns:
        (first, one past the last) of each; about ``_SPANS``, more where there are very many users.
    """
    users = min(max(n_users // _SPANS, _FEWEST_PER_SPAN), _MOST_PER_SPAN)
    return [(start, min(start + users, n_users)) for start in range(0, n_users, users)]
