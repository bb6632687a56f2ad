"""Stochastic gradient steps over a block of ratings, said plainly: what the compiled sweep is held against."""

import numpy as np

from fedboard.common.arrays import Float32Array, IndexArray, IntArray
from research.block_solvers.rating_sweep_compiled import MARGIN, WordArray

_LANES, _WORDS = 16, 4
_DRAWS_AT_ONCE = 2 * _LANES


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
    """Segment by segment: noise that the user's row is owed; then, rating by rating, the item's, and one step.

    See ``research.block_solvers.rating_sweep`` for the arguments.
    """
    rank, biased, noisy, clock, user_gap = (int(number) for number in numbers)
    mean, lowest, highest = scalars
    bias, noise = user_rows.shape[1] - MARGIN, _Noise(state, table)
    for segment, user in enumerate(users):
        user_gain, user_pull, deviation = user_rates[user]
        if noisy and clock - user_clocks[user] > user_gap:
            noise.disturb(user_rows[user], rank, biased, deviation, clock - user_clocks[user])
            user_clocks[user] = clock
        for entry in range(bounds[segment], bounds[segment + 1]):
            item = items[entry]
            item_gain, item_pull, deviation = item_rates[item]
            if noisy:
                item_waits[item, 0] -= 1
                if item_waits[item, 0] <= 0:
                    if clock > item_clocks[item]:
                        noise.disturb(item_rows[item], rank, biased, deviation, clock - item_clocks[item])
                        item_clocks[item] = clock
                    item_waits[item, 0] = item_waits[item, 1]
            own, shown = user_rows[user].copy(), item_rows[item].copy()
            found = mean + own[bias] + shown[bias] + own[:rank] @ shown[:rank]
            inside = lowest <= found <= highest
            error = weights[user] * (values[entry] - found) if inside else np.float32(0)
            user_rows[user, :bias] = (1 - user_pull) * own[:bias] + user_gain * error * shown[:bias]
            item_rows[item, :bias] = (1 - item_pull) * shown[:bias] + item_gain * error * own[:bias]
            if biased:
                user_rows[user, bias] = (1 - user_pull) * own[bias] + user_gain * error
                item_rows[item, bias] = (1 - item_pull) * shown[bias] + item_gain * error
            clock += 1


def settle(
    rows: Float32Array,
    clocks: IntArray,
    rates: Float32Array,
    numbers: IntArray,
    state: WordArray,
    table: Float32Array,
) -> None:
    """Give every row the noise that it is owed at the clock's time."""
    rank, biased, _, clock, _ = (int(number) for number in numbers)
    noise = _Noise(state, table)
    for row in np.flatnonzero(clock > clocks):
        noise.disturb(rows[row], rank, biased, rates[row, 2], clock - clocks[row])
        clocks[row] = clock


class _Noise:
    """Draws of one thread: the generator's state moves on in place."""

    def __init__(self, state: WordArray, table: Float32Array) -> None:
        self._state, self._table = state, table

    def disturb(self, row: Float32Array, rank: int, biased: int, deviation: np.float32, ticks: int) -> None:
        """Add to a row's factors and bias what ``ticks`` ticks add up to."""
        bias = row.size - MARGIN
        scale = deviation * np.float32(np.sqrt(float(ticks)))
        draws = self._read(bias) if self._table.size else self._draw(bias)
        row[:rank] += scale * draws[:rank]
        if biased:
            row[bias] += scale * draws[bias]

    def _read(self, bias: int) -> Float32Array:
        word = int(self._state[0])
        word = (word ^ (word << 13)) & 0xFFFFFFFF
        word ^= word >> 17
        word = (word ^ (word << 5)) & 0xFFFFFFFF
        self._state[0] = word
        offset = word * (self._table.size - bias) >> 32
        return self._table[offset : offset + bias + 1]

    def _draw(self, bias: int) -> Float32Array:
        turns = (bias + _DRAWS_AT_ONCE) // _DRAWS_AT_ONCE
        return np.concatenate([self._pair() for _ in range(turns)])

    def _pair(self) -> Float32Array:
        """Thirty-two draws by the Box-Muller transform: sixteen cosines, then their sines."""
        radius_bits, angle_bits = self._next(), self._next()
        uniform = (radius_bits >> np.uint32(1)) * 2.0**-31 + 2.0**-32
        turn = (angle_bits & np.uint32(0x3FFFFFFF)) * 2.0**-30 - 0.5
        angle = turn * np.pi / 2
        flipped, negated = angle_bits & np.uint32(1 << 30) != 0, angle_bits >> np.uint32(31)
        sign = 1.0 - 2.0 * negated
        cosine, sine = sign * np.cos(angle), sign * np.sin(angle)
        radius = np.sqrt(-2.0 * np.log(uniform))
        first, second = np.where(flipped, sine, cosine), np.where(flipped, cosine, sine)
        return np.concatenate([radius * first, radius * second]).astype(np.float32)

    def _next(self) -> WordArray:
        """One step of xoshiro128++ in sixteen lanes."""
        words = self._state.reshape(_WORDS, _LANES)
        a, b, c, d = words.copy()
        drawn = _rotated(a + d, 7) + a
        shifted = b << np.uint32(9)
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        words[:] = a, b, c ^ shifted, _rotated(d, 11)
        return drawn


def _rotated(words: WordArray, bits: int) -> WordArray:
    rotated: WordArray = (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
    return rotated
