"""What made-up people are like: public whole numbers, fitted to aggregate statistics of a public data set."""

from dataclasses import dataclass
from typing import Final

TASTES: Final = 16
"""Directions of taste."""
STAR: Final = 1 << 14
"""Scores count in these parts of a star."""
ITEM_TASTE: Final = 111
"""Spread of the items' tastes: their standard deviation is 64."""
EXCESS: Final = 1 << 12
"""What is beyond the minimum counts in these parts of its mean."""
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
