"""What a pass-by-pass solver holds: both sides' rows, and how they move."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.cohort import Cohort
from fedboard.common.errors import InputError
from fedboard.simulations.baselines.als import AlsConfig, AlsModel
from research.block_solvers.rating_sweep import (
    FactorRows,
    RatingBlock,
    SweepRates,
    WordArray,
    generator_state,
    item_waits,
    settle,
    sweep_ratings,
)


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


_ROWS_AT_ONCE = 1 << 14
_NO_TABLE = np.zeros(0, dtype=np.float32)


@dataclass(slots=True, kw_only=True, eq=False)
class Factorisation:
    """Rows of users and items while they are being learnt. Private: it holds every user's own vector."""

    stream: Stream
    users: FactorRows
    items: FactorRows
    mean: float
    states: Sequence[WordArray]
    """A noise generator for each thread."""
    waits: IndexArray
    table: Float32Array = field(default_factory=lambda: _NO_TABLE)
    """Draws to read instead of drawing; for the speed experiment alone."""
    clock: int = 0
    precisions: tuple[FloatArray, FloatArray] | None = None
    """Of the prior of users' and items' rows, where they are learnt along; each float64, shape (rank + 1,)."""

    def sweep(self, rates: SweepRates, order: np.random.Generator) -> None:
        """One pass, blocks in random order: they have disjoint users. The clock ticks once a rating."""
        sizes, numbers = self.stream.block_sizes, order.permutation(len(self.stream.blocks))
        clocks = self.clock + np.cumsum(sizes[numbers]) - sizes[numbers]
        jobs, lock = iter(zip(numbers.tolist(), clocks.tolist(), strict=True)), Lock()

        def work_off(thread: int) -> None:
            while True:
                with lock:
                    job = next(jobs, None)
                if job is None:
                    return
                self._step(self.stream.blocks[job[0]], job[1], thread, rates)

        if len(self.states) == 1:
            work_off(0)
        else:
            with ThreadPoolExecutor(len(self.states)) as pool:
                list(pool.map(work_off, range(len(self.states))))  # so that an exception in a thread surfaces
        self.clock += self.stream.head.n_ratings

    def settle(self, rates: SweepRates) -> None:
        """Give every row the noise that it is owed."""
        settle(
            *(self.users, self.items, rates),
            clock=self.clock,
            state=self.states[0],
            table=self.table,
        )

    def item_factors(self) -> Float32Array:
        """Item vectors by item number, float32, shape (n_items, rank)."""
        return self._by_item(self.items.factors)

    def item_biases(self) -> Float32Array:
        """Item biases by item number, float32, shape (n_items,)."""
        return self._by_item(self.items.biases)

    def recommender(
        self, *, user_ridge: float, user_ridge_exponent: float, rating_range: tuple[float, float]
    ) -> AlsModel:
        """What a device makes of the item vectors alone: her own bias and vector by a ridge regression (eq. 5).

        Args:
            user_ridge: strength of the ridge.
            user_ridge_exponent: it grows with her number of ratings to this power; 0 as in the paper.
            rating_range: public.
        """
        config = AlsConfig(
            feedback=Feedback.EXPLICIT,
            rank=self.items.rank,
            sweeps=1,
            user_ridge=user_ridge,
            item_ridge=1.0,
            user_ridge_exponent=user_ridge_exponent,
            item_ridge_exponent=0.0,
            biases=True,
            rating_range=rating_range,
            backend="compiled",
        )
        coordinates = np.column_stack([self.item_biases(), self.item_factors()])
        return AlsModel(config=config, mean=self.mean, item_coordinates=coordinates)

    def _step(self, block: RatingBlock, clock: int, thread: int, rates: SweepRates) -> None:
        sweep_ratings(
            block,
            self.users,
            self.items,
            rates,
            waits=self.waits,
            clock=clock,
            state=self.states[thread],
            table=self.table,
        )

    def _by_item(self, rows: Float32Array) -> Float32Array:
        ordered = np.empty(rows.shape, dtype=np.float32)
        ordered[self.stream.head.item_of_row] = rows
        return ordered


def start(
    stream: Stream,
    *,
    rank: int,
    deviation: float,
    mean: float,
    seed: int,
    threads: int,
) -> Factorisation:
    """Random vectors, biases zero.

    Args:
        stream: the ratings.
        rank: >= 1.
        deviation: of each coordinate of a first vector.
        mean: constant part of every prediction.
        seed: of vectors and noise.
        threads: >= 1.
    """
    head, rng = stream.head, np.random.default_rng(seed)
    users, items = FactorRows.zeros(head.n_users, rank), FactorRows.zeros(head.n_items, rank)
    for side in (items, users):
        for row in range(0, side.rows.shape[0], _ROWS_AT_ONCE):
            part = side.factors[row : row + _ROWS_AT_ONCE]
            part[:] = rng.standard_normal(part.shape, dtype=np.float32) * np.float32(deviation)
    return Factorisation(
        stream=stream,
        users=users,
        items=items,
        mean=mean,
        states=[generator_state(seed, thread) for thread in range(threads)],
        waits=item_waits(head.item_counts),
    )
