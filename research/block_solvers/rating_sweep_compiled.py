"""Stochastic gradient steps over a block of ratings, rating by rating, with Langevin noise where asked for."""

from math import sqrt
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import Float32Array, IndexArray, IntArray
from fedboard.common.kernels.compiled.panels import prefetch
from fedboard.common.kernels.compiled.vectors import Emitter, Value, emitted, for_vectors, inner_product
from fedboard.common.kernels.compiling import compiled, reading, writing
from research.block_solvers.normal_vectors import DRAWS_AT_ONCE, fill_normal


@emitted()
def step_both(
    builder: Any,
    left: Emitter,
    left_at: Value,
    right: Emitter,
    right_at: Value,
    count: Value,
    left_keep: Value,
    right_keep: Value,
    left_change: Value,
    right_change: Value,
) -> None:
    """a, b <- left_keep a + left_change b, right_keep b + right_change a over ``count`` numbers, whole vectors."""
    scalars = (left_keep, right_keep, left_change, right_change)
    keep_first, keep_second, to_first, to_second = (left.splat(value) for value in scalars)

    def step(offset: Value, slot: int) -> None:
        left_here, right_here = builder.add(left_at, offset), builder.add(right_at, offset)
        a, b = left.load(left_here), right.load(right_here)
        left.store(left.multiply_add(to_first, b, builder.fmul(keep_first, a)), left_here)
        right.store(right.multiply_add(to_second, a, builder.fmul(keep_second, b)), right_here)

    for_vectors(builder, count, left.lanes, step)


@emitted()
def add_scaled(
    builder: Any,
    target: Emitter,
    target_at: Value,
    source: Emitter,
    source_at: Value,
    count: Value,
    scale: Value,
) -> None:
    """Add ``scale`` times ``count`` numbers of ``source``, a multiple of the lanes, to ``target``."""
    scaled = target.splat(scale)

    def add(offset: Value, slot: int) -> None:
        here = builder.add(target_at, offset)
        added = source.load(builder.add(source_at, offset))
        target.store(target.multiply_add(scaled, added, target.load(here)), here)

    for_vectors(builder, count, target.lanes, add)


WordArray: TypeAlias = NDArray[np.uint32]
MARGIN: Final = 16
"""Numbers of a row after its factors and their padding: the bias, and room that keeps rows of a power of two
apart in the cache."""
_LINE: Final = 16  # float32 in a cache line
# Item rows asked for before they are needed; two hide a miss of the second-level cache at every rank.
_AHEAD: Final = 2
_ONE: Final = np.float32(1.0)
_WORD: Final = np.uint64(0xFFFFFFFF)


@compiled()
def _prefetch_row(rows: Float32Array, place: int, stride: int) -> None:
    for position in range(0, stride, _LINE):
        prefetch(rows, place + position)


@compiled()
def _owed(deviation: np.float32, ticks: int) -> np.float32:
    """Deviation of what some ticks of noise add up to."""
    return deviation * np.float32(sqrt(np.float64(ticks)))


@compiled()
def _table_offset(state: WordArray, choices: int) -> int:
    """A place in the table, by one step of a 32-bit xorshift generator in the state's first word."""
    word = np.uint64(state[0])
    word = (word ^ (word << np.uint64(13))) & _WORD
    word ^= word >> np.uint64(17)
    word = (word ^ (word << np.uint64(5))) & _WORD
    state[0] = np.uint32(word)
    return int((word * np.uint64(choices)) >> np.uint64(32))


@compiled()
def _disturb(
    rows: Float32Array,
    place: int,
    rank: int,
    padded: int,
    biased: int,
    scale: np.float32,
    draws: Float32Array,
    state: WordArray,
    table: Float32Array,
) -> None:
    """Add normal noise of deviation ``scale`` to the factors of a row, and to its bias."""
    if table.size:
        offset = _table_offset(state, table.size - padded)
        add_scaled(rows, place, table, offset, padded, scale)
        noise = table[offset + padded]
    else:
        fill_normal(draws, draws.size, state)
        add_scaled(rows, place, draws, 0, padded, scale)
        noise = draws[padded]
    for position in range(rank, padded):
        rows[place + position] = 0.0
    if biased:
        rows[place + padded] += scale * noise


@compiled(
    *(reading("int32", 1), reading("int64", 1), reading("int32", 1), reading("float32", 1)),
    *(writing("float32", 2), writing("float32", 2), reading("float32", 1)),
    *(reading("float32", 2), reading("float32", 2), writing("int64", 1), writing("int64", 1)),
    *(writing("int32", 2), reading("int64", 1), reading("float32", 1)),
    *(writing("uint32", 1), reading("float32", 1)),
)
def sweep(
    users: IndexArray,
    bounds: IntArray,
    items: IndexArray,
    values: Float32Array,
    user_rows: Float32Array,
    item_rows: Float32Array,
    weights: Float32Array,
    user_rates: Float32Array,
    item_rates: Float32Array,
    user_clocks: IntArray,
    item_clocks: IntArray,
    item_waits: IndexArray,
    numbers: IntArray,
    scalars: Float32Array,
    state: WordArray,
    table: Float32Array,
) -> None:
    """As in ``reference.rating_sweep.sweep``; each row in place, without locks."""
    rank, biased, noisy, clock, user_gap = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    mean, lowest, highest = scalars[0], scalars[1], scalars[2]
    stride = user_rows.shape[1]
    padded = stride - MARGIN
    user_flat, item_flat = user_rows.reshape(-1), item_rows.reshape(-1)
    draws = np.empty((padded + DRAWS_AT_ONCE) // DRAWS_AT_ONCE * DRAWS_AT_ONCE, np.float32)
    last_entry, last_segment = items.size - 1, users.size - 1
    for segment in range(users.size):
        user = np.int64(users[segment])
        at_user = user * stride
        _prefetch_row(user_flat, np.int64(users[min(segment + 1, last_segment)]) * stride, stride)
        if noisy and clock - user_clocks[user] > user_gap:
            scale = _owed(user_rates[user, 2], clock - user_clocks[user])
            _disturb(user_flat, at_user, rank, padded, biased, scale, draws, state, table)
            user_clocks[user] = clock
        weight, user_gain, user_keep = weights[user], user_rates[user, 0], _ONE - user_rates[user, 1]
        for entry in range(bounds[segment], bounds[segment + 1]):
            _prefetch_row(item_flat, np.int64(items[min(entry + _AHEAD, last_entry)]) * stride, stride)
            item = np.int64(items[entry])
            at_item = item * stride
            if noisy:
                item_waits[item, 0] -= 1
                if item_waits[item, 0] <= 0:
                    if clock > item_clocks[item]:
                        scale = _owed(item_rates[item, 2], clock - item_clocks[item])
                        _disturb(item_flat, at_item, rank, padded, biased, scale, draws, state, table)
                        item_clocks[item] = clock
                    item_waits[item, 0] = item_waits[item, 1]
            user_bias, item_bias = user_flat[at_user + padded], item_flat[at_item + padded]
            product = inner_product(user_flat, at_user, item_flat, at_item, padded)
            found = mean + user_bias + item_bias + product
            error = np.float32(0.0)
            if lowest <= found <= highest:
                error = weight * (values[entry] - found)
            user_change, item_change = user_gain * error, item_rates[item, 0] * error
            item_keep = _ONE - item_rates[item, 1]
            step_both(
                *(user_flat, at_user, item_flat, at_item, padded),
                *(user_keep, item_keep, user_change, item_change),
            )
            if biased:
                user_flat[at_user + padded] = user_keep * user_bias + user_change
                item_flat[at_item + padded] = item_keep * item_bias + item_change
            clock += 1


@compiled(
    *(writing("float32", 2), writing("int64", 1), reading("float32", 2), reading("int64", 1)),
    *(writing("uint32", 1), reading("float32", 1)),
)
def settle(
    rows: Float32Array,
    clocks: IntArray,
    rates: Float32Array,
    numbers: IntArray,
    state: WordArray,
    table: Float32Array,
) -> None:
    """As in ``reference.rating_sweep.settle``."""
    rank, biased, clock = numbers[0], numbers[1], numbers[3]
    stride = rows.shape[1]
    padded, flat = stride - MARGIN, rows.reshape(-1)
    draws = np.empty((padded + DRAWS_AT_ONCE) // DRAWS_AT_ONCE * DRAWS_AT_ONCE, np.float32)
    for row in range(rows.shape[0]):
        if clock > clocks[row]:
            scale = _owed(rates[row, 2], clock - clocks[row])
            _disturb(flat, row * stride, rank, padded, biased, scale, draws, state, table)
            clocks[row] = clock
