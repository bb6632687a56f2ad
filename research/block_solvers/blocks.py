"""Ratings in the order that the fast solver reads them: users in blocks, items by tiers of popularity.

Item rows are numbered by falling popularity. Users come in batches whose rows stay in the cache; a batch is read
tier by tier of items, so that the rows of a tier stay there too, and within a tier user by user (Liu, Wang and
Smola 2015, sec. 5.1, 5.2). A block is some batches: what one thread works on.
"""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from research.block_solvers.rating_sweep import RatingBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How ratings are cut and ordered; changes results only as any other order of the ratings would."""

    users_per_block: int = 2048
    users_per_batch: int = 256
    """So many users' rows should fit into the second-level cache."""
    tiers: tuple[int, ...] = (500, 4500)
    """Rows of items, by popularity, at which a new tier begins."""

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            InputError: a size is not a whole number >= 1, or tiers do not ascend.
        """
        if self.users_per_block < 1 or self.users_per_batch < 1:
            raise InputError("users_per_block and users_per_batch must be whole numbers >= 1")
        if list(self.tiers) != sorted(set(self.tiers)) or any(tier < 1 for tier in self.tiers):
            raise InputError(f"tiers must ascend from at least 1, got {self.tiers}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Head:
    """What is known of a stream beside its ratings. Private."""

    item_of_row: IndexArray
    """int32, shape (n_items,): the item that each row stands for, most rated first."""
    item_counts: IntArray
    """int64, shape (n_items,): ratings of each row's item."""
    user_counts: IntArray
    """int64, shape (n_users,): ratings of each user."""
    total: float
    """Sum of all values."""

    @property
    def n_users(self) -> int:
        """Number of users, with or without ratings."""
        return self.user_counts.size

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.item_of_row.size

    @property
    def n_ratings(self) -> int:
        """Number of ratings."""
        return int(self.user_counts.sum())

    @property
    def mean(self) -> float:
        """Mean of all ratings; 0 without any. Private."""
        return self.total / max(self.n_ratings, 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stream:
    """Blocks of ratings that can be read in any order, over and over."""

    head: Head
    blocks: tuple[RatingBlock, ...]

    @property
    def block_sizes(self) -> IntArray:
        """Ratings in each block, int64, shape (n_blocks,)."""
        return np.array([block.items.size for block in self.blocks], dtype=np.int64)


def arrange(cohort: Cohort, layout: Layout | None = None) -> Stream:
    """Bring ratings into reading order.

    Args:
        cohort: private.
        layout: None for the usual one.
    """
    layout, counts = layout or Layout(), np.bincount(cohort.items, minlength=cohort.n_items)
    order = np.argsort(-counts, kind="stable")
    head = Head(
        item_of_row=order.astype(np.int32),
        item_counts=counts[order],
        user_counts=cohort.counts,
        total=float(cohort.ratings.sum(dtype=np.float64)),
    )
    row_of_item = np.empty(head.n_items, dtype=np.int32)
    row_of_item[head.item_of_row] = np.arange(head.n_items, dtype=np.int32)
    blocks = []
    for start in range(0, cohort.n_users, layout.users_per_block):
        rows = cohort.rows(start, min(start + layout.users_per_block, cohort.n_users))
        if rows.n_ratings:
            blocks.append(_block(rows, start, row_of_item, layout))
            blocks[-1].require_within(head.n_users, head.n_items)
    return Stream(head=head, blocks=tuple(blocks))


def _block(rows: Cohort, first_user: int, row_of_item: IndexArray, layout: Layout) -> RatingBlock:
    users, items = rows.user_of_entry().astype(np.int64), row_of_item[rows.items]
    tier = np.searchsorted(layout.tiers, items, side="right")
    batch, place = np.divmod(users, layout.users_per_batch)
    segment = (batch * (len(layout.tiers) + 1) + tier) * layout.users_per_batch + place
    order = np.lexsort((items, segment))
    segment = segment[order]
    begins = np.flatnonzero(np.concatenate([[True], segment[1:] != segment[:-1]]))
    return RatingBlock(
        users=(first_user + users[order][begins]).astype(np.int32),
        bounds=np.concatenate([begins, [users.size]]).astype(np.int64),
        items=np.ascontiguousarray(items[order]),
        values=np.ascontiguousarray(rows.ratings[order]),
    )
