"""The built-in data set: made-up people rating made-up films, as much like MovieLens as a few lines allow."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fedboard.common.arrays import Float32Array, FloatArray, IndexArray, IntArray
from fedboard.common.errors import InputError
from fedboard.simulations.data.ratings import Ratings
from fedboard.simulations.data.synthetic.skewed import PopularityShape, popularity_weights

GENRES = ("drama", "comedy", "mystery", "adventure", "romance", "fantasy", "western", "documentary")
_FIRST_YEAR, _LAST_YEAR = 1931, 2024
_STARTS = ("Al", "Bel", "Cor", "Dor", "Fen", "Gal", "Hal", "Jor", "Kel", "Lor", "Mar", "Nor", "Ros", "Vel")
_MIDDLES = ("a", "o", "e", "ari", "ela", "ime", "ovi", "una", "isto", "ane", "oru", "ili", "avo", "ende")
_ENDS = ("ra", "da", "mond", "ville", "na", "wick", "mar", "stead", "li", "ne", "ro", "vane", "dell", "mir")
_PHRASES = {
    "drama": ("The House at {}", "A Winter in {}", "{}'s Daughter", "The Silence of {}"),
    "comedy": ("Breakfast with {}", "The Wrong {}", "Three Umbrellas for {}", "{} Moves Back In"),
    "mystery": ("The {} Ledger", "Who Waited in {}", "The Clockmaker of {}", "Nine Keys to {}"),
    "adventure": ("The Road to {}", "Beyond {} Pass", "The Map of {}", "{} by Balloon"),
    "romance": ("Letters from {}", "One Summer in {}", "Dancing with {}", "Meet Me in {}"),
    "fantasy": ("The Lantern of {}", "{} and the Glass River", "The Last Witch of {}", "A Crown for {}"),
    "western": ("The Horses of {}", "Dust over {}", "{} Crossing", "Two Riders from {}"),
    "documentary": ("The Bees of {}", "Inside {}", "Building {}", "{}: A Portrait"),
}


def made_up_titles(genres: IndexArray, *, rng: np.random.Generator) -> tuple[str, ...]:
    """One distinct title per item, such as ``The Clockmaker of Velorune (1984, mystery)``.

    Args:
        genres: shape (n_items,), positions in ``GENRES``.
        rng: where the choice comes from.
    """
    taken: set[str] = set()
    return tuple(_fresh(GENRES[genre], taken, rng) for genre in genres.tolist())


def _fresh(genre: str, taken: set[str], rng: np.random.Generator) -> str:
    """A title that was not taken yet; takes it."""
    while True:
        start, middle, end, phrase, year = rng.random(5).tolist()
        name = _pick(_STARTS, start) + _pick(_MIDDLES, middle) + _pick(_ENDS, end)
        released = _FIRST_YEAR + int(year * (_LAST_YEAR - _FIRST_YEAR + 1))
        title = f"{_pick(_PHRASES[genre], phrase).format(name)} ({released}, {genre})"
        if title not in taken:
            taken.add(title)
            return title


def _pick(words: tuple[str, ...], fraction: float) -> str:
    return words[int(fraction * len(words))]


RATING_RANGE = (1.0, 5.0)
RANK = len(GENRES)
LARGEST_SHARE_RATED = 0.3
USERS_PER_BLOCK, BLOCK_CELLS = 256, 1 << 23
_CENTRE = 3.05
_ITEM_BIAS_STDDEV, _USER_BIAS_STDDEV, _QUALITY_OF_POPULAR = 0.50, 0.44, 0.30
_TASTE_STDDEV, _NOISE_STDDEV = 0.58, 0.86
_ACTIVITY_STDDEV = 1.0
# Taste directions differ in weight, as the singular values of real ratings do.
_DIRECTION_DECAY = 0.5
_OWN_GENRE = 1.2
_PARTS_OF_USERS = 9
_ACCEPT_FLOOR, _ACCEPT_MIDDLE, _ACCEPT_SLOPE = 0.1, 0.5, 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticConfig:
    """Size and seed of the synthetic set. Public."""

    n_users: int = 20_000
    """Number of users; >= 1. The first n users of a larger set are those of a set of n."""
    n_items: int = 2_000
    """Size of the catalogue; >= 20."""
    mean_ratings_per_user: float = 85.0
    """Mean of the log-normal number of ratings per user, before its cap; > 0."""
    minimum_ratings_per_user: int = 10
    """Nobody rates fewer, unless 30 % of the catalogue is fewer; >= 1."""
    popularity_exponent: float = 1.5
    """Zipf-Mandelbrot exponent s of item popularity (rank + n_items / 40)^-s; >= 0, larger is more skewed."""
    top_tenth: float | None = None
    """Instead: share of the ratings on the top tenth of the items, of log-normal popularity; in (0.1, 1)."""
    most_popular: float = 0.5
    """With ``top_tenth``: share of the users who rate the most popular item, at most; in (0, 1)."""
    least_popular: float = 0.0
    """With ``top_tenth``: share of the users who rate the least popular item; in [0, 1), 0: what its tail gives."""
    seed: int = 0
    """The same configuration makes the same set; >= 0."""

    def __post_init__(self) -> None:
        """Check the sizes.

        Raises:
            InputError: a field is out of range.
        """
        checks = {
            "n_users must be in [1, 1e8]": 1 <= self.n_users <= 100_000_000,
            "n_items must be in [20, 1e7]": 20 <= self.n_items <= 10_000_000,
            "mean_ratings_per_user must be in (0, 1e6]": 0 < self.mean_ratings_per_user <= 1e6,
            "minimum_ratings_per_user must be >= 1": self.minimum_ratings_per_user >= 1,
            "popularity_exponent must be >= 0": self.popularity_exponent >= 0,
            "top_tenth must be in (0.1, 1)": self.top_tenth is None or 0.1 < self.top_tenth < 1,
            "most_popular must be in (0, 1)": 0 < self.most_popular < 1,
            "least_popular must be in [0, 1)": 0 <= self.least_popular < 1,
            "seed must be >= 0": self.seed >= 0,
        }
        for rule, holds in checks.items():
            if not holds:
                raise InputError(f"synthetic data: {rule}, got {getattr(self, rule.split()[0])}; change it.")

    @property
    def name(self) -> str:
        """What reports call the set."""
        return "synthetic" if self.top_tenth is None else f"synthetic, top tenth {self.top_tenth:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Items:
    bias: Float32Array
    """Shape (n_items,)."""
    taste: Float32Array
    """Shape (RANK, n_items)."""
    popularity: FloatArray
    """Shape (n_items,), cumulative, ends at 1."""
    genres: IndexArray
    """Shape (n_items,), in ``0..RANK - 1``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Users:
    bias: Float32Array
    """Shape (n_users,)."""
    taste: Float32Array
    """Shape (RANK, n_users)."""
    counts: IntArray
    """Shape (n_users,): how many distinct items each rates."""


def synthetic_ratings(config: SyntheticConfig) -> Ratings:
    """Make ratings by a low-rank model with biases and noise; users rate what they tend to like.

    ``rating = round(centre + bias_u + bias_i + <taste_u, taste_i> + noise)`` on whole stars from 1 to 5.
    Items are drawn without replacement, by Zipf-Mandelbrot popularity times an acceptance that rises with
    ``<taste_u, taste_i>``; the number of ratings of a user is log-normal. Works in blocks of users, so that
    memory stays bounded.

    Guarantee: what a user rates depends on her number, the seed and the catalogue, not on how many others there
    are: a block is always drawn whole, and users beyond ``n_users`` are left out of it afterwards.

    Args:
        config: sizes and seed.

    Returns:
        Nobody's data: nothing in it is private, though it is treated as if it were.
    """
    items = _make_items(config)
    size = _block_users(config)
    blocks = [_rate_block(config, items, start, size) for start in range(0, config.n_users, size)]
    counts, rated, values = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return Ratings(
        users=np.repeat(np.arange(config.n_users, dtype=np.int32), counts),
        items=rated,
        values=values,
        user_ids=np.arange(1, config.n_users + 1, dtype=np.int64),
        item_ids=np.arange(1, config.n_items + 1).astype(np.str_),
        titles=made_up_titles(items.genres, rng=np.random.default_rng([config.seed, 3])),
        rating_range=RATING_RANGE,
        name=config.name,
        items_listed=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Truth:
    """What the ratings of the synthetic set come from, for judging models alone."""

    user_level: Float32Array
    """Shape (n_users,)."""
    user_taste: Float32Array
    """Shape (n_users, RANK)."""
    item_level: Float32Array
    """Shape (n_items,)."""
    item_taste: Float32Array
    """Shape (n_items, RANK)."""

    def expected(self, users: IndexArray, items: IndexArray) -> Float32Array:
        """Stars of each pair before noise, rounding and the ends of the scale: no model predicts better."""
        liking = np.einsum("nk,nk->n", self.user_taste[users], self.item_taste[items])
        found: Float32Array = self.user_level[users] + self.item_level[items] + liking + np.float32(_CENTRE)
        return found


def synthetic_truth(config: SyntheticConfig) -> Truth:
    """The truth behind ``synthetic_ratings`` of the same configuration."""
    items, size = _make_items(config), _block_users(config)
    blocks = [_make_users(config, start, size) for start in range(0, config.n_users, size)]
    return Truth(
        user_level=np.concatenate([users.bias for users in blocks])[: config.n_users],
        user_taste=np.concatenate([users.taste.T for users in blocks])[: config.n_users],
        item_level=items.bias,
        item_taste=items.taste.T,
    )


def _block_users(config: SyntheticConfig) -> int:
    return max(1, min(USERS_PER_BLOCK, BLOCK_CELLS // config.n_items))


def _make_items(config: SyntheticConfig) -> _Items:
    rng = np.random.default_rng([config.seed, 0])
    n_items = config.n_items
    position = rng.permutation(n_items)
    weight = _popularity(config)[position]
    liked = _standardised(-np.log(position + 1 + n_items / 40))
    bias = _ITEM_BIAS_STDDEV * rng.standard_normal(n_items) + _QUALITY_OF_POPULAR * liked
    taste = rng.standard_normal((RANK, n_items))
    genres = np.argmax(taste, axis=0).astype(np.int32)
    taste[genres, np.arange(n_items)] += _OWN_GENRE
    taste -= taste.mean(axis=1, keepdims=True)
    taste /= taste.std(axis=1, keepdims=True)
    cumulative = np.cumsum(weight)
    popularity = cumulative / cumulative[-1]
    return _Items(
        bias=bias.astype(np.float32),
        taste=taste.astype(np.float32),
        popularity=popularity,
        genres=genres,
    )


def _popularity(config: SyntheticConfig) -> FloatArray:
    """Weights by rank, most popular first; float64, shape (n_items,)."""
    if config.top_tenth is None:
        ranks = np.arange(config.n_items) + 1 + config.n_items / 40
        return np.asarray(ranks**-config.popularity_exponent, dtype=np.float64)
    parts = (np.arange(_PARTS_OF_USERS) + 0.5) / _PARTS_OF_USERS
    location = np.log(config.mean_ratings_per_user) - _ACTIVITY_STDDEV**2 / 2
    activity = np.exp(location + _ACTIVITY_STDDEV * ndtri(parts))
    most = max(1, int(LARGEST_SHARE_RATED * config.n_items))
    counts = np.minimum(np.maximum(np.rint(activity), config.minimum_ratings_per_user), most)
    return popularity_weights(
        PopularityShape(
            top_tenth=config.top_tenth,
            most_popular=config.most_popular,
            least_popular=config.least_popular,
            rated=tuple((counts / config.n_items).tolist()),
            n_items=config.n_items,
        )
    )


def _rate_block(
    config: SyntheticConfig, items: _Items, start: int, size: int
) -> tuple[IntArray, IndexArray, Float32Array]:
    """How much users ``start:start + size`` rate, which items and how, without those beyond ``n_users``."""
    users = _make_users(config, start, size)
    rated, values = _rate(users, items, np.random.default_rng([config.seed, 2, start]))
    counts = users.counts[: config.n_users - start]
    kept = int(counts.sum())
    return counts, rated[:kept], values[:kept]


def _make_users(config: SyntheticConfig, start: int, size: int) -> _Users:
    rng = np.random.default_rng([config.seed, 1, start])
    strength = np.arange(1, RANK + 1) ** -_DIRECTION_DECAY
    strength *= _TASTE_STDDEV / np.sqrt(np.sum(strength**2))
    taste = rng.standard_normal((RANK, size)) * strength[:, None]
    # The mean of a log-normal is exp(m + s^2 / 2).
    location = np.log(config.mean_ratings_per_user) - _ACTIVITY_STDDEV**2 / 2
    activity = rng.lognormal(location, _ACTIVITY_STDDEV, size)
    most = max(1, int(LARGEST_SHARE_RATED * config.n_items))
    counts = np.clip(np.rint(activity), config.minimum_ratings_per_user, None)
    return _Users(
        bias=(_USER_BIAS_STDDEV * rng.standard_normal(size)).astype(np.float32),
        taste=taste.astype(np.float32),
        counts=np.minimum(counts, most).astype(np.int64),
    )


def _rate(users: _Users, items: _Items, rng: np.random.Generator) -> tuple[IndexArray, Float32Array]:
    """Items and ratings of a block of users, sorted by user and item."""
    chosen = _choose(users, items, rng)
    user = np.repeat(np.arange(users.counts.size), users.counts)
    item = np.flatnonzero(chosen) - user * items.bias.size
    score = users.bias[user] + items.bias[item] + _affinity(users, items, user, item)
    score += np.float32(_NOISE_STDDEV) * rng.standard_normal(user.size, dtype=np.float32)
    values = np.clip(np.rint(score + np.float32(_CENTRE)), *RATING_RANGE)
    return item.astype(np.int32), values.astype(np.float32)


def _choose(users: _Users, items: _Items, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Which items each user rates, shape (n_users, n_items): rounds of draws, repeated draws thrown away.

    Drawing one by one and skipping what was drawn before is sampling without replacement; a round makes many
    such draws at once and keeps each user's first ones.
    """
    n_users, n_items = users.counts.size, items.bias.size
    chosen = np.zeros((n_users, n_items), dtype=np.bool_)
    cells, first = chosen.reshape(-1), np.empty(chosen.size, dtype=np.int32)
    missing, factor = users.counts.copy(), 2.5
    while missing.any():
        draws = np.where(missing > 0, np.ceil(missing * factor) + 4, 0).astype(np.int64)
        user = np.repeat(np.arange(n_users), draws)
        item = np.searchsorted(items.popularity, rng.random(user.size), side="right")
        accept = _ACCEPT_MIDDLE + _ACCEPT_SLOPE / _TASTE_STDDEV * _affinity(users, items, user, item)
        key = (user * n_items + item)[rng.random(user.size) < np.maximum(accept, _ACCEPT_FLOOR)]
        key = _first_of_each(key[~cells[key]], first)
        owner = key // n_items
        of_owner = np.bincount(owner, minlength=n_users)
        rank = np.arange(key.size) - np.repeat(np.cumsum(of_owner) - of_owner, of_owner)
        kept = rank < missing[owner]
        cells[key[kept]] = True
        missing -= np.bincount(owner[kept], minlength=n_users)
        factor *= 1.5
    return chosen


def _first_of_each(key: IntArray, first: NDArray[np.int32]) -> IntArray:
    """The keys without repetitions, in the order in which they come; ``first`` is room for one number a key."""
    places = np.arange(key.size, dtype=np.int32)
    first[key[::-1]] = places[::-1]  # of several numbers for one place NumPy keeps the last
    return np.asarray(key[first[key] == places])


def _affinity(users: _Users, items: _Items, user: IntArray, item: IntArray) -> Float32Array:
    """<taste_u, taste_i> per pair, float32, added up in a fixed order whatever BLAS is installed."""
    total = np.zeros(user.size, dtype=np.float32)
    for of_users, of_items in zip(users.taste, items.taste, strict=True):
        total += of_users.take(user) * of_items.take(item)
    return total


def _standardised(values: FloatArray) -> FloatArray:
    return np.divide(values - np.mean(values), np.std(values))
