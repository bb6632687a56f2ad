"""Matrix factorisation rating by rating: a pass of gradient steps over a block, with lazy Langevin noise.

For each rating y of user j and item i, in the block's order, with e = w_j (y - mean - c_j - b_i - <u_j, v_i>), or 0
where the prediction is outside ``prediction_range``,

  (u_j, c_j) <- (1 - pull_j) (u_j, c_j) + gain_j e (v_i, 1)
  (v_i, b_i) <- (1 - pull_i) (v_i, b_i) + gain_i e (u_j, 1)

Langevin noise belongs to every row at every tick of a clock that ticks once a rating. Sums of normal draws are
normal, so a row gets it when it is next read: one draw for all ticks since the last one. Item rows wait for at most
16 touches in between, user rows are due once a pass; ``settle`` gives every row what it is still owed. Noise is
drawn from a seed and has no privacy proof of its own: this is for simulations with trusted data.

Reference: Liu, Wang and Smola (2015), eqs. 3 and 4, sec. 5.
"""

from dataclasses import dataclass

import numpy as np

from fedboard.common.arrays import Float32Array, IndexArray, IntArray, ascends
from fedboard.common.errors import InputError
from research.block_solvers import rating_sweep_compiled as kernel
from research.block_solvers.rating_sweep_compiled import MARGIN, WordArray

MOST_WAITS = 16
"""Touches of an item row between two draws of its noise, at most."""
_LANES = 16
_STATE_WORDS = 4 * _LANES
_DRAWS_PER_PASS = 4  # at least so many for an item with as many ratings
_NO_TABLE = np.zeros(0, dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RatingBlock:
    """Ratings of some users, cut into segments of one user each. Private."""

    users: IndexArray
    """int32, shape (n_segments,): row number of each segment's user."""
    bounds: IntArray
    """int64, shape (n_segments + 1,): segment s holds the entries ``bounds[s]:bounds[s + 1]``."""
    items: IndexArray
    """int32, shape (n_entries,): row numbers of items."""
    values: Float32Array
    """float32, shape (n_entries,)."""

    def require_within(self, n_users: int, n_items: int) -> None:
        """Refuse numbers that are no rows. Compiled kernels read without looking.

        Raises:
            InputError: the arrays do not fit together, or name rows that there are not.
        """
        ends = self.bounds.size == self.users.size + 1 and self.bounds[0] == 0
        if not ends or self.bounds[-1] != self.items.size or self.items.shape != self.values.shape:
            raise InputError("a block's bounds must run from 0 to its number of ratings, one segment a user")
        if not ascends(self.bounds):
            raise InputError("a block's bounds must ascend")
        for name, numbers, limit in (("users", self.users, n_users), ("items", self.items, n_items)):
            if numbers.size and not 0 <= numbers.min() <= numbers.max() < limit:
                raise InputError(f"{name} of a block must be row numbers in 0..{limit - 1}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FactorRows:
    """Vectors and biases of users or items, padded for the kernel, with the time of their last noise."""

    rows: Float32Array
    """float32, shape (n, padded rank + 16): factors, zeros, bias, room."""
    clocks: IntArray
    """int64, shape (n,): noise is given up to this tick."""
    rank: int

    @staticmethod
    def zeros(n_rows: int, rank: int) -> "FactorRows":
        """All factors and biases zero at tick 0."""
        rows = np.zeros((n_rows, row_length(rank)), dtype=np.float32)
        return FactorRows(rows=rows, clocks=np.zeros(n_rows, dtype=np.int64), rank=rank)

    @property
    def factors(self) -> Float32Array:
        """A view, float32, shape (n, rank)."""
        return self.rows[:, : self.rank]

    @property
    def biases(self) -> Float32Array:
        """A view, float32, shape (n,)."""
        return self.rows[:, self.rows.shape[1] - MARGIN]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SweepRates:
    """What a pass does with each rating."""

    weights: Float32Array
    """w_j: float32, shape (n_users,)."""
    user_rates: Float32Array
    """float32, shape (n_users, 3): gain, pull, and deviation of a tick's noise."""
    item_rates: Float32Array
    """float32, shape (n_items, 3): the same."""
    mean: float
    biased: bool
    """Whether users and items have biases."""
    noisy: bool
    """Whether there is Langevin noise."""
    prediction_range: tuple[float, float] = (-np.inf, np.inf)
    """Where a prediction lies outside, the rating pulls at nothing: its loss is constant there."""
    user_gap: int = 0
    """A user's row gets its noise when read more than so many ticks after the last time."""

    def scalars(self) -> Float32Array:
        """As the kernel reads them."""
        return np.array([self.mean, *self.prediction_range], dtype=np.float32)

    def numbers(self, rank: int, clock: int) -> IntArray:
        """As the kernel reads them."""
        return np.array([rank, self.biased, self.noisy, clock, self.user_gap], dtype=np.int64)


def row_length(rank: int) -> int:
    """Numbers in a row: the rank rounded up to whole vectors, and the margin."""
    return -(-rank // _LANES) * _LANES + MARGIN


def generator_state(seed: int, stream: int) -> WordArray:
    """State of a noise generator, one for each thread; uint32, shape (64,), changed by use."""
    drawn = np.random.SeedSequence([seed, stream]).generate_state(_STATE_WORDS, np.uint32)
    return drawn.astype(np.uint32)


def item_waits(counts: IntArray) -> IndexArray:
    """Touches until an item's next noise, and from one to the next: a quarter of its ratings, 1 to 16.

    Args:
        counts: int64, shape (n_items,), ratings per item in a pass.

    Returns:
        int32, shape (n_items, 2), changed by use.
    """
    period = np.clip(counts // _DRAWS_PER_PASS, 1, MOST_WAITS).astype(np.int32)
    return np.column_stack([period, period])


def sweep_ratings(
    block: RatingBlock,
    users: FactorRows,
    items: FactorRows,
    rates: SweepRates,
    *,
    waits: IndexArray,
    clock: int,
    state: WordArray,
    table: Float32Array = _NO_TABLE,
) -> None:
    """One step for each rating of a block, in its order; changes the rows, clocks, waits and state in place.

    Several threads may work on blocks of disjoint users at once. Item rows are then changed without locks: a
    step may be lost, and results differ from run to run. One thread gives the same bits every time.

    Args:
        block: whose ``require_within`` has passed. Private.
        users: of the population. Private.
        items: of the catalogue. Private until sampled or published otherwise.
        rates: what to do.
        waits: of ``item_waits``.
        clock: tick of the block's first rating.
        state: of ``generator_state``, one for each thread.
        table: draws to read at random places instead of drawing, for speed experiments alone; float32, flat,
            longer than a row. Reusing draws has no privacy proof.

    Raises:
        InputError: arrays that do not fit together.
    """
    _check(users, items, rates, waits, state, table)
    kernel.sweep(
        *(block.users, block.bounds, block.items, block.values, users.rows, items.rows),
        *(rates.weights, rates.user_rates, rates.item_rates, users.clocks, items.clocks, waits),
        *(rates.numbers(users.rank, clock), rates.scalars(), state, table),
    )


def settle(
    users: FactorRows,
    items: FactorRows,
    rates: SweepRates,
    *,
    clock: int,
    state: WordArray,
    table: Float32Array = _NO_TABLE,
) -> None:
    """Give each row the noise that it is owed at tick ``clock``; in place. Arguments as for ``sweep_ratings``."""
    for side, own in ((items, rates.item_rates), (users, rates.user_rates)):
        _check_side(side, own, state, table)
        kernel.settle(side.rows, side.clocks, own, rates.numbers(side.rank, clock), state, table)


def _check(
    users: FactorRows,
    items: FactorRows,
    rates: SweepRates,
    waits: IndexArray,
    state: WordArray,
    table: Float32Array,
) -> None:
    _check_side(users, rates.user_rates, state, table)
    _check_side(items, rates.item_rates, state, table)
    fits = rates.weights.shape == users.clocks.shape and waits.shape == (items.clocks.size, 2)
    if users.rank != items.rank or not fits:
        raise InputError("users and items must have one rank, users a weight and items a wait each")


def _check_side(side: FactorRows, rates: Float32Array, state: WordArray, table: Float32Array) -> None:
    n_rows, length = side.rows.shape
    if length != row_length(side.rank) or side.clocks.shape != (n_rows,) or rates.shape != (n_rows, 3):
        raise InputError(
            f"rows of rank {side.rank} must be {row_length(side.rank)} long, with clock and rates"
        )
    if state.shape != (_STATE_WORDS,) or (table.size and table.size < length):
        raise InputError(f"a generator has {_STATE_WORDS} words, and a table is at least {length} long")


__all__ = [
    "MOST_WAITS",
    "FactorRows",
    "RatingBlock",
    "SweepRates",
    "WordArray",
    "generator_state",
    "item_waits",
    "row_length",
    "settle",
    "sweep_ratings",
]
