"""What a pass-by-pass solver holds: both sides' rows, and how they move."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.arrays import Float32Array, FloatArray, IndexArray
from fedboard.simulations.baselines.als import AlsConfig, AlsModel
from research.block_solvers.blocks import Stream
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
