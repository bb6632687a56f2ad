"""Facts about a data set, for its owner's eyes."""

from typing import Any

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.simulations.datasets.ratings import Ratings

NOTE = "exact statistics of the raw data: not private, not to be published for real people's ratings"
_QUANTILES = {"minimum": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95, "maximum": 1.0}
_TIMES = {"first": 0.0, "half": 0.5, "80 %": 0.8, "90 %": 0.9, "last": 1.0}
"""Up to when so many of the ratings were given."""
_MOST_BARS = 20


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
    per_user = np.bincount(ratings.users, minlength=ratings.n_users)
    per_item = np.bincount(ratings.items, minlength=ratings.n_items)
    head = max(1, round(ratings.n_items / 10))
    when = (
        None if ratings.times is None else np.quantile(ratings.times, list(_TIMES.values()), method="lower")
    )
    return {
        "note": NOTE,
        "name": ratings.name,
        "users": ratings.n_users,
        "items": ratings.n_items,
        "ratings": ratings.n_ratings,
        "test_ratings": 0 if ratings.test is None else ratings.test.n_ratings,
        "density": ratings.n_ratings / (ratings.n_users * ratings.n_items),
        "rating_range": list(ratings.rating_range),
        "has_titles": ratings.titles is not None,
        "has_own_test": ratings.test is not None,
        "ratings_per_user": _spread(per_user),
        "ratings_per_item": _spread(per_item),
        "share_of_top_items": float(np.sort(per_item)[-head:].sum() / ratings.n_ratings),
        "values": _histogram(ratings),
        **({} if when is None else {"times": dict(zip(_TIMES, when.tolist(), strict=True))}),
    }


def _spread(counts: IntArray) -> dict[str, float]:
    quantiles = np.quantile(counts, list(_QUANTILES.values()))
    named = dict(zip(_QUANTILES, (float(value) for value in quantiles), strict=True))
    return {"mean": float(counts.mean()), **named}


def _histogram(ratings: Ratings) -> list[list[float]]:
    values, counts = np.unique(ratings.values, return_counts=True)
    if values.size > _MOST_BARS:
        counts, edges = np.histogram(ratings.values, bins=_MOST_BARS, range=ratings.rating_range)
        values = edges[1:].astype(np.float32)
    return [[float(value), int(count)] for value, count in zip(values, counts, strict=True)]
