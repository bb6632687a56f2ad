"""What made-up people are like: public whole numbers, fitted to aggregate statistics of a public data set.

Shapes that were fitted: aggregate statistics of public data sets, as whole numbers. Public.

``research/population.md`` holds the people that they make beside the data.

The random words of made-up people: each belongs to one person, or to one item, and to nothing else.

Everything is whole numbers modulo 2^64, so that a word is the same on every machine and with every version of
NumPy. No secret rests on them.

Draws from a list of weights in constant time: Walker's table, in whole numbers.

What is public about made-up people: items, and rules by which ratings come about. Whole numbers throughout.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from fedboard.common.arrays import BitArray, Float32Array, IndexArray, IntArray
from fedboard.common.contribution_bounding.mixing import mix64

TASTES: Final = 16
"""Directions of taste."""
ITEM_TASTE: Final = 111
"""Spread of the items' tastes: their standard deviation is 64."""
Knots = tuple[tuple[int, int], ...]
"""(level, value): levels rise from 0 to 2^16, values are joined by straight lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Of a population. Spreads are sqrt(3) times a standard deviation, in 2^-14 stars. Public."""

    activity: Knots
    """At which share of the people, from those who rate least on, somebody rates how much beyond the minimum, in
    2^-12 of the mean of that."""
    popularity: Knots
    """At which share of the catalogue, from the most popular item on, an item weighs how much when it is drawn."""
    item_spread: int
    """Of the items' levels."""
    popular_better: int
    """By how much the most popular item is better than the least popular, in the same parts of a star."""
    person_spread: int
    """Of the people's levels."""
    active_lower: int
    """By how much whoever rates most rates lower than whoever rates least, in parts of a star."""
    taste_spreads: tuple[int, ...]
    """Of the people's tastes, one for each direction; a product with an item's taste is in parts of a star."""
    noise_spread: int
    """Of what is neither the person's nor the item's."""
    cuts: tuple[int, int, int, int]
    """Scores from which a rating is 2, 3, 4 and 5 stars."""
    drawn_to: int
    """What liking adds to the chance that a person rates what she comes across: 2^-16 per 2^-4 stars."""


ACCEPTED, LEAST_ACCEPTED = 1 << 15, 6554
"""Chance in 2^-16 that somebody rates what she comes across and neither likes nor dislikes; and the least."""


ML_1M: Final = Shape(
    activity=(
        *((0, 0), (3277, 84), (6554, 197), (16384, 676), (26214, 1407), (32768, 2139), (39322, 2984)),
        *((49152, 5292), (55706, 8135), (58982, 10696), (62259, 15087), (64225, 21511), (64881, 24925)),
        *((65208, 28845), (65405, 34900), (65503, 44194), (65536, 63699)),
    ),
    popularity=(
        *((0, 1048576), (40, 788768), (100, 598482), (200, 561989), (400, 443498), (655, 297616)),
        *((1311, 199332), (2294, 150917), (3277, 122355), (4915, 92090), (6554, 73424), (9830, 51597)),
        *((13107, 37612), (19661, 23224), (26214, 15049), (32768, 10065), (39322, 6233), (45875, 3722)),
        *((52429, 2227), (58982, 1023), (65536, 258)),
    ),
    item_spread=18860,
    popular_better=13741,
    person_spread=12904,
    active_lower=3837,
    taste_spreads=(169, 122, 120, 92, 92, 83, 79, 68, 72, 67, 57, 60, 53, 53, 56, 53),
    noise_spread=24000,
    cuts=(-24551, -11096, 6258, 26858),
    drawn_to=12000,
)
"""MovieLens 1M: 6 040 people, 3 449 films, 999 714 ratings."""


STRIDE: Final = 0x9E3779B97F4A7C15
"""Between the states of a stream, as in splitmix64."""
ACTIVITY, LEVEL, FIRST_TASTE, KEY, FIRST_CANDIDATE, FIRST_RATING = 0, 1, 2, 32, 64, 1 << 40
"""Which words of her stream say how much a person rates, how high, what she likes, by what her coins are thrown,
what she comes across, and (from ``FIRST_RATING`` on, by the number of the item) what moves her on the day that she
rates it."""
_OF_PEOPLE, _OF_ITEMS, _OF_ORDER = 0x70656F706C65, 0x6974656D73, 0x6F72646572
"""Set the three kinds of word of one seed apart."""
_FIELDS: Final = 0xFFFF
CENTRE: Final = 2 * _FIELDS
"""Of the sum of four fields of 16 bits."""


def seed_word(seed: int) -> BitArray:
    """What the words of all people follow from; uint64, shape (1,)."""
    return _of_kind(seed, _OF_PEOPLE)


def streams_of(base: BitArray, start: int, stop: int) -> BitArray:
    """The stream of each person ``start:stop``, uint64, shape (stop - start,).

    Args:
        base: of ``seed_word``.
        start: number of the first person.
        stop: one past the last.
    """
    return mix64(base ^ mix64(np.arange(start, stop, dtype=np.uint64)))


def word(stream: BitArray, number: int | IntArray) -> BitArray:
    """The so-and-so-many-th word of a stream, uint64; both broadcast."""
    with np.errstate(over="ignore"):
        return mix64(stream + np.asarray(number, dtype=np.uint64) * np.uint64(STRIDE))


def item_words(seed: int, numbers: IntArray, kind: int) -> BitArray:
    """A word of each kind for each item, uint64, shape (n,).

    Args:
        seed: of the people.
        numbers: of the items, shape (n,).
        kind: 0, 1, ...: which word.
    """
    return word(mix64(_of_kind(seed, _OF_ITEMS) ^ mix64(numbers.astype(np.uint64))), kind)


def order_of_items(seed: int, n_items: int) -> IntArray:
    """How popular each item is: a permutation, 0 the most popular; int64, shape (n_items,)."""
    words = word(_of_kind(seed, _OF_ORDER), np.arange(n_items, dtype=np.int64))
    found = np.empty(n_items, dtype=np.int64)
    found[np.argsort(words, kind="stable")] = np.arange(n_items, dtype=np.int64)
    return found


def bell(words: BitArray) -> IntArray:
    """A bell-shaped whole number of each word: the sum of its four fields of 16 bits less its mean; int64.

    Its standard deviation is 2^16 / sqrt(3) (to 1e-9), and it never lies further out than 3.46 of them.
    """
    shifts = (np.uint64(shift) for shift in (0, 16, 32, 48))
    fields = sum((words >> shift) & np.uint64(_FIELDS) for shift in shifts)
    return np.asarray(fields, dtype=np.uint64).astype(np.int64) - CENTRE


def scaled(bells: IntArray, spread: int | IntArray) -> IntArray:
    """``bells * spread / 2^16``, rounded down: standard deviation ``spread / sqrt(3)``; int64."""
    found: IntArray = (bells * spread) >> 16
    return found


def _of_kind(seed: int, kind: int) -> BitArray:
    return mix64(mix64(np.asarray([seed], dtype=np.uint64)) ^ np.uint64(kind))


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


_MOST_KEPT = 4
_LEVELS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Tables:
    """Of one population. All public."""

    base: BitArray
    """uint64, shape (1,): what the words of all people follow from."""
    keep: IntArray
    """int64, shape (n_items,): chance in 2^-16 to keep the item that was drawn evenly."""
    other: IndexArray
    """int32, shape (n_items,): the item that is taken instead."""
    level: IndexArray
    """int32, shape (n_items,): how good the item is, in 2^-14 stars."""
    taste: Float32Array
    """float32 holding whole numbers below 2^8, shape (n_items, TASTES)."""
    knots: IntArray
    """int64, shape (2, n_knots): levels, and what a person there rates beyond the minimum, in 2^-12 ratings."""
    numbers: IntArray
    """int64, shape (11,): fewest and most ratings of a person, spreads of person and noise, the four cuts, what
    liking adds to the chance, what somebody comes across for a rating, by how much the most active rate lower."""
    taste_spreads: IntArray
    """int64, shape (TASTES,)."""


TRIES = 32
"""What somebody comes across for each of her ratings, before she takes the next item that she has not rated."""


@lru_cache(maxsize=_MOST_KEPT)
def tables_of(seed: int, items: int, mean: float, fewest: int, most: int, shape: Shape) -> Tables:
    """The tables of a population, made once in a process.

    Args:
        seed: of the people.
        items: size of the catalogue.
        mean: of the ratings of a person.
        fewest: everybody rates so many.
        most: nobody rates more.
        shape: what people and items are like.
    """
    order = order_of_items(seed, items)
    levels = (2 * order + 1) * (_LEVELS // 2) // items
    keep, other = alias_table(between(shape.popularity, levels))
    numbers = np.arange(items, dtype=np.int64)
    spread = scaled(bell(item_words(seed, numbers, 0)), shape.item_spread)
    better = ((_LEVELS // 2 - levels) * shape.popular_better) >> 16
    taste = [
        scaled(bell(item_words(seed, numbers, 1 + direction)), ITEM_TASTE) for direction in range(TASTES)
    ]
    return Tables(
        base=seed_word(seed),
        keep=keep,
        other=other,
        level=(spread + better).astype(np.int32),
        taste=np.ascontiguousarray(np.stack(taste, axis=1), dtype=np.float32),
        knots=_activity(shape, mean, fewest),
        numbers=np.array(
            [
                *(fewest, most, shape.person_spread, shape.noise_spread, *shape.cuts),
                *(shape.drawn_to, TRIES, shape.active_lower),
            ],
            dtype=np.int64,
        ),
        taste_spreads=np.array(shape.taste_spreads, dtype=np.int64),
    )


def between(knots: Knots, levels: IntArray) -> IntArray:
    """Values on the straight lines between knots, rounded down; int64, as many as levels.

    Args:
        knots: levels rise from 0 to 2^16.
        levels: in [0, 2^16).
    """
    at, value = (np.array(side, dtype=np.int64) for side in zip(*knots, strict=True))
    place = np.searchsorted(at, levels, side="right") - 1
    width, rise = np.diff(at)[place], np.diff(value)[place]
    found: IntArray = value[place] + (levels - at[place]) * rise // width
    return found


def _activity(shape: Shape, mean: float, fewest: int) -> IntArray:
    """Knots of what is beyond the minimum, for this mean; exact, since people must not depend on a rounding."""
    beyond = round((mean - fewest) * _LEVELS)
    area = sum((b - a) * (x + y) for (a, x), (b, y) in zip(shape.activity, shape.activity[1:], strict=False))
    # the mean of the values is area / 2^17, and beyond is in 2^-16: so much of v is in 2^-12
    values = [(value * beyond * (1 << 13)) // area for _, value in shape.activity]
    return np.array([[level for level, _ in shape.activity], values], dtype=np.int64)
