"""Regression problems whose rows belong to users: synthetic, drug reviews, news popularity."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedboard.common.arrays import FloatArray, IntArray
from fedboard.common.errors import InputError

INFORMATIVE, USELESS = 5, 5
"""Features of the synthetic problem (paper, App. E.1.1)."""
_NOISE = 20.0
_NEWS_ROWS, _NEWS_USERS, _NEWS_LARGEST, _NEWS_TOP = 3452, 297, 878, 71.0
_REVIEWS = "druglib_all.tsv"
_NEWS = "News_Final.csv"
_INTERVALS = tuple(f"TS{number}" for number in range(3, 31, 3))
"""Popularity at the end of each of the first ten hours; a column is 20 minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Rows of users. Nobody's secrets: the paper's data are public or made up."""

    name: str
    features: FloatArray
    """Shape (n, d)."""
    labels: FloatArray
    """Shape (n,)."""
    users: IntArray
    """Shape (n,), ``0..n_users - 1``."""
    label_range: tuple[float, float]

    @property
    def sizes(self) -> IntArray:
        """Rows of each user."""
        return np.bincount(self.users)

    @property
    def label_width(self) -> float:
        """B."""
        return self.label_range[1] - self.label_range[0]

    @property
    def description(self) -> str:
        """Sizes, in a few words."""
        n, d = self.features.shape
        sizes = self.sizes
        return f"{self.name}: {n} rows, {d} features, {sizes.size} users with {sizes.min()} to {sizes.max()}"


def synthetic_problem(n: int, *, alpha: float, seed: int) -> Problem:
    """A linear model like scikit-learn's ``make_regression`` with rows by Zipf's law (paper, App. E.1.1).

    Standard normal features, 5 coefficients in [0, 100] and 5 zeros, noise of deviation 20. The number of users
    with i rows is proportional to ``i^-alpha``, rounded so that n rows come out. The range of labels is what they
    happen to span, as if it were public.
    """
    rng, sizes = np.random.default_rng(seed), _zipf_sizes(n, alpha)
    features = rng.standard_normal((n, INFORMATIVE + USELESS))
    coefficients = np.concatenate([100.0 * rng.random(INFORMATIVE), np.zeros(USELESS)])
    labels = features @ rng.permutation(coefficients) + _NOISE * rng.standard_normal(n)
    return Problem(
        name=f"synthetic, Zipf exponent {alpha:g}",
        features=features,
        labels=labels,
        users=rng.permutation(np.repeat(np.arange(sizes.size), sizes)),
        label_range=(float(labels.min()), float(labels.max())),
    )


def _zipf_sizes(n: int, alpha: float) -> IntArray:
    """Sizes of the users, ascending, of sum n."""
    rows = np.arange(1, n + 1)

    def users(scale: float) -> IntArray:
        rounded: IntArray = np.rint(scale * rows**-alpha).astype(np.int64)
        return rounded

    low, high = 0.0, float(n)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if int(users(middle) @ rows) <= n else (low, middle)
    counts = users(low)
    left = n - int(counts @ rows)
    for place in np.argsort(-((low * rows**-alpha + 0.5) % 1.0)):  # who would have been rounded up next
        if rows[place] <= left:
            counts[place] += 1
            left -= int(rows[place])
    counts[0] += left
    sizes: IntArray = np.repeat(rows, counts)
    return sizes


def news_like_problem(seed: int) -> Problem:
    """Made-up posts with what the paper says of its news: 3452 of 297 sources with 1 to 878 each, 10 features.

    How often a post was shared in the end is heavy-tailed, on [0, 71]; what it had been shared after each of ten
    hours is a part of that which grows. Sizes of the sources follow a power law between 1 and 878. The values are
    not the paper's: only sizes, ranges and the kind of dependence are.
    """
    rng = np.random.default_rng(seed)
    sizes = _sizes_between(_NEWS_ROWS, n_users=_NEWS_USERS, largest=_NEWS_LARGEST)
    final = np.minimum(np.floor((1.0 - rng.random(_NEWS_ROWS)) ** -0.7 - 1.0), _NEWS_TOP)
    final[int(np.argmax(final))] = _NEWS_TOP
    speeds = rng.uniform(0.2, 3.0, (_NEWS_ROWS, 1))
    hours = np.arange(1, len(_INTERVALS) + 1)
    seen = np.floor(
        final[:, None] * (1.0 - np.exp(-speeds * hours / 4.0)) + rng.random((_NEWS_ROWS, hours.size))
    )
    return Problem(
        name="news (made up)",
        features=np.maximum.accumulate(np.minimum(seen, final[:, None]), axis=1),
        labels=final,
        users=rng.permutation(np.repeat(np.arange(sizes.size), sizes)),
        label_range=(0.0, _NEWS_TOP),
    )


def _sizes_between(n: int, *, n_users: int, largest: int) -> IntArray:
    """Sizes ``largest / rank^a``, at least 1, with the a that makes them add to n; descending."""
    ranks = np.arange(1, n_users + 1)

    def sizes(exponent: float) -> IntArray:
        found: IntArray = np.maximum(np.rint(largest * ranks**-exponent), 1.0).astype(np.int64)
        return found

    low, high = 0.0, 10.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if int(sizes(middle).sum()) > n else (low, middle)
    found = sizes(high)
    short = n - int(found.sum())
    found[1 : 1 + short] += 1
    return found


def read_problem(place: Path) -> Problem:
    """The paper's data from a folder or file: drug reviews (druglib) or news popularity.

    Raises:
        InputError: neither is there.
    """
    folder = place if place.is_dir() else place.parent
    if (folder / _NEWS).is_file():
        return _news(folder)
    reviews = place if place.is_file() else folder / _REVIEWS
    if not reviews.is_file():
        raise InputError(
            f"{place}: neither {_REVIEWS} (drug reviews with a column split) nor {_NEWS} (news popularity) is there"
        )
    return _drugs(reviews)


def _drugs(path: Path) -> Problem:
    """Ratings in [1, 10]; a constant and side effects and effectiveness, each without its first category."""
    rows = [row for row in _table(path, "\t") if row.get("split") == "train"]
    wanted = {"rating", "effectiveness", "sideEffects", "urlDrugName"}
    if not rows or not wanted <= rows[0].keys():
        raise InputError(f"{path}: needs rows of split train with the columns {', '.join(sorted(wanted))}")
    columns = [np.ones(len(rows))]
    for name in ("effectiveness", "sideEffects"):
        values = np.array([row[name] for row in rows])
        columns += [(values == category).astype(np.float64) for category in np.unique(values)[1:]]
    return Problem(
        name="drugs",
        features=np.stack(columns, axis=1),
        labels=np.array([float(row["rating"]) for row in rows]),
        users=_numbered([row["urlDrugName"] for row in rows]),
        label_range=(1.0, 10.0),
    )


def _news(folder: Path) -> Problem:
    """Final popularity of posts from that of their first ten hours; sources are the users."""
    source = {row["IDLink"]: row["Source"] for row in _table(folder / _NEWS, ",")}
    posts = sorted(path for path in folder.glob("*_*.csv") if path.name != _NEWS)
    if len(posts) != 1:
        raise InputError(
            f"{folder}: needs {_NEWS} and one file of posts, such as LinkedIn_Palestine.csv, found {len(posts)}"
        )
    rows = [row for row in _table(posts[0], ",") if row["IDLink"] in source and float(row["TS144"]) >= 0]
    labels = np.array([float(row["TS144"]) for row in rows])
    features = np.array([[float(row[name]) for name in _INTERVALS] for row in rows])
    return Problem(
        name=f"news ({posts[0].stem})",
        features=np.maximum(features, 0.0),
        labels=labels,
        users=_numbered([source[row["IDLink"]] for row in rows]),
        label_range=(0.0, float(labels.max())),
    )


def _table(path: Path, delimiter: str) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter=delimiter))


def _numbered(names: list[str]) -> IntArray:
    numbers: IntArray = np.unique(names, return_inverse=True)[1].astype(np.int64)
    return numbers
