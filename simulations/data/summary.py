"""Facts about a data set, for its owner's eyes: counted by duckdb, whether it is in memory or in shards."""

from typing import Any

import numpy as np

from fedboard.simulations.data.ratings import Ratings
from fedboard.simulations.data.shards import ShardedRatings
from fedboard.simulations.data.workbench import Workbench, quoted, workbench

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
    import pyarrow as pa

    columns: dict[str, Any] = {"user": ratings.users, "item": ratings.items, "value": ratings.values}
    columns |= {} if ratings.times is None else {"time": ratings.times}
    with workbench() as bench:
        table = bench.register(pa.table(columns))
        own = None if ratings.test is None else ratings.test.n_ratings
        counts = f"SELECT count(*) AS n FROM {table} GROUP BY user"
        return _facts(bench, table, counts, ratings, test_ratings=own, times=ratings.times is not None)


def describe_shards(shards: ShardedRatings, *, times: bool) -> dict[str, Any]:
    """The same of a sharded data set, whose ratings stay on disk.

    Args:
        shards: the data set. Private.
        times: whether to tell when ratings were given.

    Raises:
        InputError: what is there cannot be read, or it does not say when.
    """
    if times:
        shards.times(0, 0)
    files = f"read_parquet([{', '.join(quoted(str(path)) for path in shards.files())}])"
    told = "unnest(items) AS item, unnest(values) AS value" + ", unnest(times) AS time" * times
    with workbench() as bench:
        table, counts = f"(SELECT {told} FROM {files})", f"SELECT count AS n FROM {files}"
        return _facts(bench, table, counts, shards, test_ratings=None, times=times)


def _facts(
    bench: Workbench,
    table: str,
    counts: str,
    about: Ratings | ShardedRatings,
    *,
    test_ratings: int | None,
    times: bool,
) -> dict[str, Any]:
    """Of rows with ``item``, ``value`` and ``time``, and of the counts ``n`` of users."""
    users, items = about.n_users, about.n_items
    per_item = f"SELECT count(*) AS n FROM {table} GROUP BY item"
    ratings = int(bench.one(f"SELECT count(*) FROM {table}"))
    top = f"SELECT n FROM ({per_item}) ORDER BY n DESC LIMIT {max(1, round(items / 10))}"
    facts = {
        "note": NOTE,
        "name": about.name,
        "users": users,
        "items": items,
        "ratings": ratings,
        "density": ratings / (users * items),
        "rating_range": list(about.rating_range),
        "ratings_per_user": _spread(bench, counts, users),
        "ratings_per_item": _spread(bench, per_item, items),
        "share_of_top_items": float(bench.one(f"SELECT sum(n) FROM ({top})")) / ratings,
        "values": _bars(bench, table, about.rating_range),
        "test_ratings": test_ratings or 0,
        "has_titles": about.titles is not None,
        "has_own_test": test_ratings is not None,
    }
    if times:
        facts["times"] = _times(bench, table, ratings)
    return facts


def _bars(bench: Workbench, table: str, rating_range: tuple[float, float]) -> list[list[float]]:
    found = bench.query(f"SELECT value, count(*) FROM {table} GROUP BY value ORDER BY value")
    if len(found) <= _MOST_BARS:
        return [[value, count] for value, count in found]
    values, counts = (np.array(column) for column in zip(*found, strict=True))
    heights, edges = np.histogram(
        values.astype(np.float32), bins=_MOST_BARS, range=rating_range, weights=counts
    )
    upper = edges[1:].astype(np.float32)
    return [[float(value), int(count)] for value, count in zip(upper, heights, strict=True)]


def _times(bench: Workbench, table: str, ratings: int) -> dict[str, int]:
    places = {name: int(np.floor(share * (ratings - 1))) for name, share in _TIMES.items()}
    ordered = f"SELECT time, row_number() OVER (ORDER BY time) - 1 AS place FROM {table}"
    wanted = ", ".join(str(place) for place in places.values())
    found = dict(bench.query(f"SELECT place, time FROM ({ordered}) WHERE place IN ({wanted})"))
    return {name: int(found[place]) for name, place in places.items()}


def _spread(bench: Workbench, counts: str, of: int) -> dict[str, float]:
    """Mean and quantiles of so many numbers ``n``; those that are not among the counts are 0."""
    missing = of - int(bench.one(f"SELECT count(*) FROM ({counts})"))
    every = f"SELECT n FROM ({counts}) UNION ALL SELECT 0 FROM range({missing})"
    shares = list(_QUANTILES.values())
    mean, found = bench.query(f"SELECT avg(n), quantile_cont(n, {shares}) FROM ({every})")[0]
    return {"mean": mean, **dict(zip(_QUANTILES, found, strict=True))}
