"""Ratings in the order that the fast solver reads them: users in blocks, items by tiers of popularity.

Item rows are numbered by falling popularity. Users come in batches whose rows stay in the cache; a batch is read
tier by tier of items, so that the rows of a tier stay there too, and within a tier user by user (Liu, Wang and
Smola 2015, sec. 5.1, 5.2). A block is some batches: what is read from disk at once, and what one thread works on.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from research.block_solvers.rating_sweep import RatingBlock

_KINDS: Final = {"users": np.int32, "bounds": np.int64, "items": np.int32, "values": np.float32}
_HEAD: Final = "head.json"


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
    """What is known of a stream without reading its ratings. Private."""

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


class Stream(Protocol):
    """Blocks of ratings that can be read in any order, over and over."""

    @property
    def head(self) -> Head:
        """Counts and numbering."""
        ...

    @property
    def block_sizes(self) -> IntArray:
        """Ratings in each block, int64, shape (n_blocks,)."""
        ...

    def read(self, number: int) -> RatingBlock:
        """One block, in memory. Safe to call from several threads."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryStream:
    """All blocks in memory."""

    head: Head
    blocks: tuple[RatingBlock, ...]

    @property
    def block_sizes(self) -> IntArray:
        """Ratings in each block."""
        return np.array([block.items.size for block in self.blocks], dtype=np.int64)

    def read(self, number: int) -> RatingBlock:
        """One block, not copied."""
        return self.blocks[number]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DiskStream:
    """Blocks in a folder, read when they are needed and not kept."""

    head: Head
    folder: Path
    starts: IntArray = field(repr=False)
    """int64, shape (n_blocks + 1, 2): first segment and first rating of each block."""

    @property
    def block_sizes(self) -> IntArray:
        """Ratings in each block."""
        sizes: IntArray = np.diff(self.starts[:, 1])
        return sizes

    def read(self, number: int) -> RatingBlock:
        """Read one block; what it takes in memory is 8 bytes a rating and 12 a segment.

        Raises:
            InputError: a file is shorter than its head says, or holds numbers that are no rows.
        """
        (segment, entry), (last_segment, last_entry) = self.starts[number : number + 2].tolist()
        segments, entries = (segment, last_segment - segment), (entry, last_entry - entry)
        block = RatingBlock(
            users=self._part("users", *segments),
            bounds=self._part("bounds", segment + number, segments[1] + 1),  # one number more a block
            items=self._part("items", *entries),
            values=self._part("values", *entries),
        )
        block.require_within(self.head.n_users, self.head.n_items)
        return block

    def _part(self, kind: str, first: int, count: int) -> Any:
        dtype = np.dtype(_KINDS[kind])
        found = np.fromfile(self.folder / kind, dtype=dtype, count=count, offset=first * dtype.itemsize)
        if found.size != count:
            raise InputError(f"{self.folder / kind} ends too early: write the blocks anew")
        return found


def arrange(cohort: Cohort, layout: Layout | None = None) -> MemoryStream:
    """Bring ratings into reading order, in memory.

    Args:
        cohort: private.
        layout: None for the usual one.
    """
    layout = layout or Layout()
    head = _head([cohort], cohort.n_items)
    return MemoryStream(head=head, blocks=tuple(_arranged([cohort], head, layout)))


def write_blocks(
    parts: Callable[[], Iterable[Cohort]], folder: Path, *, n_items: int, layout: Layout | None = None
) -> DiskStream:
    """Bring ratings into reading order, part by part, on disk.

    Args:
        parts: called twice, gives consecutive users each time; no more than one part is held at once. Private.
        folder: new or empty; gets 8 bytes a rating. As private as the ratings.
        n_items: size of the catalogue.
        layout: None for the usual one.

    Raises:
        InputError: the folder is not empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InputError(f"{folder} is not empty: name a new folder for the blocks")
    head = _head(parts(), n_items)
    starts = [(0, 0)]
    files = {kind: (folder / kind).open("wb") for kind in _KINDS}
    try:
        for block in _arranged(parts(), head, layout or Layout()):
            for kind, file in files.items():
                getattr(block, kind).tofile(file)
            starts.append((starts[-1][0] + block.users.size, starts[-1][1] + block.items.size))
    finally:
        for file in files.values():
            file.close()
    np.savez(
        folder / "head.npz",
        item_of_row=head.item_of_row,
        item_counts=head.item_counts,
        user_counts=head.user_counts,
        starts=np.array(starts, dtype=np.int64),
    )
    (folder / _HEAD).write_text(json.dumps({"total": head.total}) + "\n", encoding="utf-8")
    return open_blocks(folder)


def open_blocks(folder: Path) -> DiskStream:
    """What ``write_blocks`` wrote.

    Raises:
        InputError: the folder has no blocks.
    """
    try:
        total = json.loads((folder / _HEAD).read_text(encoding="utf-8"))["total"]
        with np.load(folder / "head.npz") as known:
            arrays = dict(known)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{folder} holds no blocks of ratings: {error}") from error
    return DiskStream(
        head=Head(total=total, **_without(arrays, "starts")), folder=folder, starts=arrays["starts"]
    )


def _without(arrays: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in arrays.items() if key != name}


def _head(parts: Iterable[Cohort], n_items: int) -> Head:
    counts, users, total = np.zeros(n_items, dtype=np.int64), [], 0.0
    for part in parts:
        counts += np.bincount(part.items, minlength=n_items)
        users.append(part.counts)
        total += float(part.ratings.sum(dtype=np.float64))
    order = np.argsort(-counts, kind="stable")
    return Head(
        item_of_row=order.astype(np.int32),
        item_counts=counts[order],
        user_counts=np.concatenate(users) if users else np.zeros(0, dtype=np.int64),
        total=total,
    )


def _arranged(parts: Iterable[Cohort], head: Head, layout: Layout) -> Iterator[RatingBlock]:
    row_of_item = np.empty(head.n_items, dtype=np.int32)
    row_of_item[head.item_of_row] = np.arange(head.n_items, dtype=np.int32)
    first_user = 0
    for part in parts:
        for start in range(0, part.n_users, layout.users_per_block):
            rows = part.rows(start, min(start + layout.users_per_block, part.n_users))
            if rows.n_ratings:
                block = _block(rows, first_user + start, row_of_item, layout)
                block.require_within(head.n_users, head.n_items)
                yield block
        first_user += part.n_users


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
