"""Draws from a list of weights in constant time: Walker's table, in whole numbers."""

import numpy as np

from fedboard.common.arrays import IndexArray, IntArray

UNIT = 1 << 16


def alias_table(weights: IntArray) -> tuple[IntArray, IndexArray]:
    """For each place the chance to keep what was drawn, and what to take instead.

    Drawing a place evenly, and then keeping it with its chance, draws each by its weight, to within 2^-16 / n.

    Args:
        weights: int64, shape (n,), in [1, 2^22], n at most 2^24.

    Returns:
        Chances in 2^-16, int64, and other places, int32; both shape (n,).

    Reference: M. Vose (1991), A linear algorithm for generating random numbers with a given distribution,
    doi:10.1109/32.92917.
    """
    n, full = weights.size, int(weights.sum())
    mass = weights * n
    other = np.arange(n, dtype=np.int32)
    pair_up(mass, full, np.argsort(mass < full, kind="stable"), other)
    return np.minimum((mass * UNIT + full // 2) // full, UNIT), other


def pair_up(mass: IntArray, full: int, order: IntArray, other: IndexArray) -> None:
    """Fill the places with too little from those with too much; ``mass`` becomes what each place keeps.

    Args:
        mass: int64, shape (n,), sum n full; changed.
        full: what a place holds.
        order: places with at least ``full`` first, then the others.
        other: int32, shape (n,): filled in.
    """
    left = mass[order].tolist()
    poor = next((place for place, size in enumerate(left) if size < full), len(left))
    waiting = list(range(poor, len(left)))
    names = order.tolist()
    for place in range(poor):
        while left[place] > full and waiting:
            needy = waiting.pop()
            other[names[needy]] = names[place]
            left[place] -= full - left[needy]
        if left[place] < full:
            waiting.append(place)
    mass[order] = left
