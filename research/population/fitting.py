"""How made-up people are fitted to a data set: some whole numbers, turned until aggregate statistics meet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.simulations.datasets.ratings import Ratings
from fedboard.simulations.datasets.synthetic.people.config import PeopleConfig
from fedboard.simulations.datasets.synthetic.people.shape import EXCESS, TASTES, Knots, Shape
from fedboard.simulations.datasets.synthetic.people.stream import PeopleStream, ratings_of_people
from research.population.statistics import Statistics, statistics_of

TURNS = 24
_SHARE = 1 << 16
_FIRST_STEP, _SLOWER = 0.8, 4.0
"""Exponents of the ratios by which numbers are turned; they fall, since every turn makes other people and items."""
_TOP_WEIGHT = 1 << 20
_ACTIVITY_LEVELS = (
    *(0, 3277, 6554, 16384, 26214, 32768, 39322, 49152, 55706),
    *(58982, 62259, 64225, 64881, 65208, 65405, 65503, 65536),
)
_POPULARITY_LEVELS = (
    *(0, 40, 100, 200, 400, 655, 1311, 2294, 3277, 4915, 6554, 9830, 13107),
    *(19661, 26214, 32768, 39322, 45875, 52429, 58982, 65536),
)
_NOISE, _MOST_DRAWN = 24_000, 12_000
"""The noise is held fast, and so is the scale of scores: the cuts say what a star is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is to be met. Aggregates of a public data set."""

    statistics: Statistics
    counts: IntArray
    """Ratings of each item, descending."""
    fewest: int
    activity: Knots


def target_of(ratings: Ratings, *, fewest: int) -> Target:
    """What a data set asks of a shape.

    Args:
        ratings: public.
        fewest: ratings that a user had to give to be in it.
    """
    active = np.bincount(ratings.users).astype(np.float64)
    beyond = np.maximum(active - fewest, 0.0)
    values = np.quantile(beyond / beyond.mean(), [level / _SHARE for level in _ACTIVITY_LEVELS])
    return Target(
        statistics=statistics_of(ratings),
        counts=_descending(ratings),
        fewest=fewest,
        activity=tuple(zip(_ACTIVITY_LEVELS, np.rint(values * EXCESS).astype(int).tolist(), strict=True)),
    )


def first_shape(target: Target) -> Shape:
    """Where fitting begins: weights like the counts, and levels of a tenth of everything."""
    at = _windows(target.counts.size)
    return Shape(
        activity=target.activity,
        popularity=_knots([target.counts[part].mean() for part in at]),
        item_spread=_NOISE // 2,
        popular_better=_NOISE // 2,
        person_spread=_NOISE // 2,
        active_lower=_NOISE // 4,
        taste_spreads=tuple(round(100 / (1 + k) ** 0.5) for k in range(TASTES)),
        noise_spread=_NOISE,
        cuts=(-29_000, -17_000, -2_000, 14_000),
        drawn_to=2_000,
    )


def fitted(
    target: Target, *, turns: int = TURNS, on_turn: Callable[[int, int], None] = lambda done, of: None
) -> Shape:
    """Make people, hold them beside the target, turn every number towards it, and again.

    Args:
        target: what is to be met.
        turns: how often.
        on_turn: told how many turns are done, of how many.
    """
    shape = first_shape(target)
    for turn in range(turns):
        on_turn(turn, turns)
        made = made_up(shape, target, seed=1 + turn)
        step = _FIRST_STEP / (1 + turn / _SLOWER)
        shape = _turned(shape, target, statistics_of(made), _descending(made), step=step)
    on_turn(turns, turns)
    return shape


def made_up(shape: Shape, target: Target, *, seed: int = 0) -> Ratings:
    """People of a shape, in the number and over the catalogue of the target's data."""
    wanted = target.statistics
    config = PeopleConfig(
        users=wanted.n_users,
        items=target.counts.size,
        mean=wanted.n_ratings / wanted.n_users,
        minimum=target.fewest,
        seed=seed,
    )
    return ratings_of_people(PeopleStream(config=config, shape=shape))


def _turned(shape: Shape, target: Target, now: Statistics, counts: IntArray, *, step: float) -> Shape:
    """A step towards the target: ratios for spreads, differences for correlations and cuts."""
    wanted = target.statistics
    return replace(
        shape,
        popularity=_popularity(shape, target.counts, counts, step),
        item_spread=round(shape.item_spread * (wanted.of_items / now.of_items) ** step),
        popular_better=shape.popular_better
        + round(step * _NOISE * (wanted.popular_better - now.popular_better)),
        person_spread=round(shape.person_spread * (wanted.of_users / now.of_users) ** step),
        active_lower=shape.active_lower - round(step * _NOISE * (wanted.active_lower - now.active_lower)),
        taste_spreads=tuple(
            max(1, round(spread * (goal / found) ** (2 * step)))
            for spread, goal, found in zip(shape.taste_spreads, wanted.tastes, now.tastes, strict=True)
        ),
        cuts=_cuts(shape, wanted.stars, now.stars, step),
        drawn_to=min(round(shape.drawn_to * wanted.company[:8].mean() / now.company[:8].mean()), _MOST_DRAWN),
    )


def _popularity(shape: Shape, wanted: IntArray, found: IntArray, step: float) -> Knots:
    """Weights at each knot by the ratio of the counts around it; damped, since draws do not repeat."""
    weights = [
        weight * (wanted[part].mean() / max(found[part].mean(), 0.5)) ** step
        for (_, weight), part in zip(shape.popularity, _windows(wanted.size), strict=True)
    ]
    return _knots(weights)


def _knots(weights: Sequence[float]) -> Knots:
    falling = np.minimum.accumulate(np.asarray(weights, dtype=np.float64))
    whole = np.maximum(np.rint(falling * _TOP_WEIGHT / falling[0]), 1).astype(int)
    return tuple(zip(_POPULARITY_LEVELS, whole.tolist(), strict=True))


def _windows(n_items: int) -> list[slice]:
    """The places around each knot: half way to its neighbours in the middle, itself at the ends."""
    at = [level * (n_items - 1) / _SHARE for level in _POPULARITY_LEVELS]
    found = []
    for place, centre in enumerate(at):
        reach = min(
            (abs(centre - at[other]) / 3 for other in (place - 1, place + 1) if 0 <= other < len(at)),
            default=0.0,
        )
        low = max(0, round(centre - reach))
        found.append(slice(low, max(low + 1, min(n_items, round(centre + reach) + 1))))
    return found


def _cuts(shape: Shape, wanted: FloatArray, found: FloatArray, step: float) -> tuple[int, int, int, int]:
    """Moved as if scores were normal, with the deviation that the spreads give them."""
    tastes = (64 * np.array(shape.taste_spreads)) ** 2
    spreads = (shape.item_spread**2, shape.person_spread**2, shape.noise_spread**2, tastes.sum())
    deviation = float(np.sqrt(sum(spreads) / 3))
    goal, now = (ndtri(np.cumsum(stars)[:4]) for stars in (wanted, found))
    first, second, third, fourth = (
        cut + round(step * deviation * (there - here))
        for cut, there, here in zip(shape.cuts, goal, now, strict=True)
    )
    return first, second, third, fourth


def _descending(ratings: Ratings) -> IntArray:
    return np.sort(np.bincount(ratings.items, minlength=ratings.n_items))[::-1]
