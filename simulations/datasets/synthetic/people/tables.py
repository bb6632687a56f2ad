"""What is public about made-up people: items, and rules by which ratings come about. Whole numbers throughout."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fedboard.common.arrays import BitArray, Float32Array, IndexArray, IntArray
from fedboard.simulations.datasets.synthetic.people import words
from fedboard.simulations.datasets.synthetic.people.alias import alias_table
from fedboard.simulations.datasets.synthetic.people.config import PeopleConfig
from fedboard.simulations.datasets.synthetic.people.shape import ITEM_TASTE, TASTES, Knots, Shape

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
    order = words.order_of_items(seed, items)
    levels = (2 * order + 1) * (_LEVELS // 2) // items
    keep, other = alias_table(between(shape.popularity, levels))
    numbers = np.arange(items, dtype=np.int64)
    spread = words.scaled(words.bell(words.item_words(seed, numbers, 0)), shape.item_spread)
    better = ((_LEVELS // 2 - levels) * shape.popular_better) >> 16
    taste = [
        words.scaled(words.bell(words.item_words(seed, numbers, 1 + direction)), ITEM_TASTE)
        for direction in range(TASTES)
    ]
    return Tables(
        base=words.seed_word(seed),
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


def of_config(config: PeopleConfig, shape: Shape) -> Tables:
    """The tables of these people."""
    return tables_of(config.seed, config.items, config.mean, config.fewest, config.most, shape)


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
