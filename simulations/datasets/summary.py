"""Facts about a data set, for its owner's eyes."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedboard.common.arrays import Float32Array, IndexArray, IntArray
from fedboard.simulations.datasets.ratings import Ratings

NOTE = "exact statistics of the raw data: not private, not to be published for real people's ratings"
_QUANTILES = {"minimum": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "maximum": 1.0}
TIMES = {"first": 0.0, "half": 0.5, "80 %": 0.8, "90 %": 0.9, "last": 1.0}
"""Up to when so many of the ratings were given."""
_MOST_BARS = 20


@dataclass(slots=True, repr=False)
class Counted:
    """What is counted of ratings, some users at a time; in memory of the catalogue, however many there are."""

    n_items: int
    rating_range: tuple[float, float]
    _users_by_count: IntArray = field(init=False)
    """Shape (n_items + 1,): how many users have so many ratings."""
    _per_item: IntArray = field(init=False)
    _by_value: dict[float, int] | None = field(init=False, default_factory=dict)
    """None: more values than are told one by one."""
    _by_bin: IntArray = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is counted yet."""
        self._users_by_count = np.zeros(self.n_items + 1, dtype=np.int64)
        self._per_item = np.zeros(self.n_items, dtype=np.int64)
        self._by_bin = np.zeros(_MOST_BARS, dtype=np.int64)

    def add(self, per_user: IntArray, items: IndexArray, values: Float32Array) -> None:
        """Count some users, all ratings of each.

        Args:
            per_user: ratings of each, shape (n_users,).
            items: int32, shape (n_ratings,).
            values: float32, shape (n_ratings,).
        """
        self._users_by_count += np.bincount(per_user, minlength=self.n_items + 1)
        self._per_item += np.bincount(items, minlength=self.n_items)
        self._by_bin += np.histogram(values, bins=_MOST_BARS, range=self.rating_range)[0]
        if self._by_value is None:
            return
        for value, count in zip(
            *(part.tolist() for part in np.unique(values, return_counts=True)), strict=True
        ):
            self._by_value[value] = self._by_value.get(value, 0) + count
        if len(self._by_value) > _MOST_BARS:
            self._by_value = None

    def facts(self) -> dict[str, Any]:
        """Sizes, spreads and bars, see ``describe``."""
        n_users, n_ratings = int(self._users_by_count.sum()), int(self._per_item.sum())
        head = max(1, round(self.n_items / 10))
        return {
            "users": n_users,
            "items": self.n_items,
            "ratings": n_ratings,
            "density": n_ratings / (n_users * self.n_items),
            "rating_range": list(self.rating_range),
            "ratings_per_user": _spread_of(self._users_by_count),
            "ratings_per_item": _spread(self._per_item),
            "share_of_top_items": float(np.sort(self._per_item)[-head:].sum() / n_ratings),
            "values": self._bars(),
        }

    def _bars(self) -> list[list[float]]:
        if self._by_value is not None:
            return [[value, count] for value, count in sorted(self._by_value.items())]
        edges = np.histogram_bin_edges(np.zeros(0), bins=_MOST_BARS, range=self.rating_range)[1:]
        return [
            [float(value), int(count)]
            for value, count in zip(edges.astype(np.float32), self._by_bin, strict=True)
        ]


def describe(ratings: Ratings) -> dict[str, Any]:
    """Size, density and skew of a data set.

    Not guaranteed: any privacy. Everything here is exact, and ``note`` says so.

    Args:
        ratings: the data set. Private.

    Returns:
        JSON-able: note, name, users, items, ratings, test_ratings, density, rating_range, has_titles,
        has_own_test, ratings_per_user and ratings_per_item (mean and quantiles), share_of_top_items (of the
        10 % most rated items), values (list of [rating, count], or of [upper edge, count] where there are
        more than 20 distinct ones), and where times were read times (by quantile, as they count).
    """
    counted = Counted(n_items=ratings.n_items, rating_range=ratings.rating_range)
    counted.add(np.bincount(ratings.users, minlength=ratings.n_users), ratings.items, ratings.values)
    when = None if ratings.times is None else np.quantile(ratings.times, list(TIMES.values()), method="lower")
    return described(
        counted,
        name=ratings.name,
        titles=ratings.titles is not None,
        test_ratings=None if ratings.test is None else ratings.test.n_ratings,
        times=None if when is None else when.tolist(),
    )


def described(
    counted: Counted, *, name: str, titles: bool, test_ratings: int | None, times: list[int] | None
) -> dict[str, Any]:
    """What ``describe`` returns, of ratings that were counted.

    Args:
        counted: all of them.
        name: of the data set.
        titles: whether it has titles.
        test_ratings: ratings of its own test part; None: it has none.
        times: the quantiles ``TIMES`` of when they were given; None: not asked.
    """
    facts = {
        "note": NOTE,
        "name": name,
        **counted.facts(),
        "test_ratings": test_ratings or 0,
        "has_titles": titles,
        "has_own_test": test_ratings is not None,
    }
    return facts if times is None else {**facts, "times": dict(zip(TIMES, times, strict=True))}


def _spread(counts: IntArray) -> dict[str, float]:
    quantiles = np.quantile(counts, list(_QUANTILES.values()))
    named = dict(zip(_QUANTILES, (float(value) for value in quantiles), strict=True))
    return {"mean": float(counts.mean()), **named}


def _spread_of(by_count: IntArray) -> dict[str, float]:
    """The spread of numbers of which it is known how many there are of each size."""
    ends = np.cumsum(by_count)
    n_users = int(ends[-1])
    places = np.array(list(_QUANTILES.values())) * (n_users - 1)
    below, above = (
        np.searchsorted(ends, rounded(places).astype(np.int64), side="right")
        for rounded in (np.floor, np.ceil)
    )
    found = below + (above - below) * (places - np.floor(places))
    mean = float(by_count @ np.arange(by_count.size)) / n_users
    return {"mean": mean, **dict(zip(_QUANTILES, found.tolist(), strict=True))}
