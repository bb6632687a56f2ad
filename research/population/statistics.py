"""What is compared of two sets of ratings: who rates how much, what, how high, and how far tastes go together."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import svds

from fedboard.common.arrays import FloatArray
from fedboard.simulations.datasets.ratings import Ratings

DIRECTIONS = 16
ACTIVITY_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
MOST_POPULAR = (0.01, 0.05, 0.1, 0.2, 0.5)
_ENOUGH = 50
"""Ratings of an item whose mean says something."""
_DAMPING = 5.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Statistics:
    """Of one set of ratings. Aggregates; exact, so not private: of public or made-up data."""

    name: str
    n_users: int
    n_items: int
    n_ratings: int
    activity: FloatArray
    """Ratings of a user over their mean, at ``ACTIVITY_QUANTILES``."""
    most_active: float
    """Likewise, the most."""
    top_shares: FloatArray
    """Share of the ratings on the most popular items, at ``MOST_POPULAR`` of those that somebody rated."""
    most_popular: float
    """Share of the users who rate the most popular item."""
    stars: FloatArray
    """Share of the ratings of each star, shape (5,)."""
    deviation: float
    """Of all ratings, stars."""
    item_deviation: float
    """Of the means of items with 50 ratings or more, stars."""
    user_deviation: float
    """Of users' means, stars."""
    popular_better: float
    """Correlation of an item's mean with the logarithm of its number of ratings."""
    active_lower: float
    """Correlation of a user's mean with the logarithm of her number of ratings."""
    spread_deviation: float
    """How much users differ in how far their own ratings scatter: deviation of that, over users, stars."""
    after_items: float
    """Root mean squared rating less its item's mean, stars."""
    after_levels: float
    """Likewise less a level of the user's own, too."""
    tastes: FloatArray
    """Singular values of what is left then, over the root of their mean square, shape (DIRECTIONS,), descending."""
    company: FloatArray
    """Singular values of who rated what, rows and columns over the roots of their sums, less the first; falling."""

    @property
    def of_items(self) -> float:
        """What items' means explain: deviation, stars."""
        return float(np.sqrt(self.deviation**2 - self.after_items**2))

    @property
    def of_users(self) -> float:
        """What users' levels explain beside them: deviation, stars."""
        return float(np.sqrt(self.after_items**2 - self.after_levels**2))

    def to_dict(self) -> dict[str, Any]:
        """As one row of a table."""
        return {
            "users": self.n_users,
            "items that somebody rated": self.n_items,
            "ratings": self.n_ratings,
            "ratings of a user, mean": self.n_ratings / self.n_users,
            **{
                f"{quantile:g} quantile over the mean": float(value)
                for quantile, value in zip(ACTIVITY_QUANTILES, self.activity, strict=True)
            },
            "most active over the mean": self.most_active,
            **{
                f"ratings on the top {share:g}": float(value)
                for share, value in zip(MOST_POPULAR, self.top_shares, strict=True)
            },
            "users who rate the most popular": self.most_popular,
            **{f"{star} stars": float(share) for star, share in enumerate(self.stars, start=1)},
            "deviation of the ratings": self.deviation,
            "deviation of items' means": self.item_deviation,
            "deviation of users' means": self.user_deviation,
            "item's mean and popularity, correlation": self.popular_better,
            "user's mean and activity, correlation": self.active_lower,
            "deviation of users' own scatter": self.spread_deviation,
            "less item means": self.after_items,
            "less levels of users": self.after_levels,
            **{f"taste, direction {place}": float(self.tastes[place - 1]) for place in (1, 2, 4, 8, 16)},
            **{f"company, direction {place}": float(self.company[place - 1]) for place in (1, 2, 4, 8)},
        }


def statistics_of(ratings: Ratings) -> Statistics:
    """Look at all ratings.

    Args:
        ratings: on stars from 1 to 5.
    """
    users, values = ratings.users, ratings.values.astype(np.float64)
    _, items = np.unique(ratings.items, return_inverse=True)
    rated, active = np.bincount(items).astype(np.float64), np.bincount(users).astype(np.float64)
    active = active[active > 0]
    _, whose = np.unique(users, return_inverse=True)
    n_users, n_items = active.size, rated.size
    by_item, by_user = np.bincount(items, values) / rated, np.bincount(whose, values) / active
    left = values - by_item[items]
    own = np.bincount(whose, left) / (active + _DAMPING)
    rest = left - own[whose]
    scatter = np.sqrt(np.bincount(whose, (values - by_user[whose]) ** 2) / active)
    descending = np.cumsum(np.sort(rated)[::-1]) / rated.sum()
    seen = csr_array((np.ones(values.size), (whose, items)), shape=(n_users, n_items))
    return Statistics(
        name=ratings.name,
        n_users=n_users,
        n_items=n_items,
        n_ratings=values.size,
        activity=np.quantile(active, ACTIVITY_QUANTILES) / active.mean(),
        most_active=float(active.max() / active.mean()),
        top_shares=descending[[max(0, round(share * n_items) - 1) for share in MOST_POPULAR]],
        most_popular=float(rated.max() / n_users),
        stars=np.bincount(values.astype(np.int64), minlength=6)[1:6] / values.size,
        deviation=float(values.std()),
        item_deviation=float(by_item[rated >= _ENOUGH].std()),
        user_deviation=float(by_user.std()),
        popular_better=float(np.corrcoef(np.log(rated), by_item)[0, 1]),
        active_lower=float(np.corrcoef(np.log(active), by_user)[0, 1]),
        spread_deviation=float(scatter.std()),
        after_items=float(np.sqrt(np.mean(left**2))),
        after_levels=float(np.sqrt(np.mean(rest**2))),
        tastes=_tastes(csr_array((rest, (whose, items)), shape=(n_users, n_items))),
        company=_singular(_balanced(seen, active, rated), DIRECTIONS + 1)[1:],
    )


def _tastes(rest: "csr_array[Any, Any]") -> FloatArray:
    scale = np.sqrt(np.mean(rest.data**2) * rest.nnz)
    found: FloatArray = _singular(rest, DIRECTIONS) / scale
    return found


def _balanced(seen: "csr_array[Any, Any]", active: FloatArray, rated: FloatArray) -> "csr_array[Any, Any]":
    return csr_array(diags_array(active**-0.5) @ seen @ diags_array(rated**-0.5))


def _singular(matrix: "csr_array[Any, Any]", number: int) -> FloatArray:
    """The largest singular values, descending."""
    start = np.ones(min(matrix.shape))
    values = svds(matrix, k=number, v0=start, return_singular_vectors=False, tol=1e-4)
    return np.sort(np.asarray(values, dtype=np.float64))[::-1]
