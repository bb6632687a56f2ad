"""Clients that mean harm: ratings that no rating file would hold, and messages that no client would send."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedboard.common.arrays import Float32Array, IndexArray, ShortArray
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request, SumSource
from fedboard.common.contribution_bounding.clipping import RESPONSE_BOUND
from fedboard.simulations.audit.canaries import canary_rows

_SMALLEST, _LARGEST = np.iinfo(np.int16).min, np.iinfo(np.int16).max


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileUser:
    """A user with ratings that a reader of files would have refused, or that are extreme but possible."""

    name: str
    items: IndexArray
    ratings: Float32Array

    def cohort(self, n_items: int) -> Cohort:
        """A phone with this user alone."""
        indptr = np.array([0, self.items.size], dtype=np.int64)
        return Cohort(indptr=indptr, items=self.items, ratings=self.ratings, n_items=n_items)


def hostile_users(
    n_items: int, rating_range: tuple[float, float], *, n_random: int, rng: np.random.Generator
) -> list[HostileUser]:
    """One user for each known trap, then random ones with heavy-tailed numbers of items and ratings.

    Args:
        n_items: size of the catalogue; every item number is valid, since readers map unknown ids away.
        rating_range: public.
        n_random: how many random ones.
        rng: draws items and ratings.
    """
    low, high = rating_range
    everything = np.arange(n_items, dtype=np.int32)
    few = np.sort(rng.choice(n_items, min(7, n_items), replace=False)).astype(np.int32)
    one = few[:1]
    twice = np.repeat(few, 2)
    users = [
        _user("no ratings", few[:0], 0.0),
        _user("one item", one, high),
        _user("all items, highest", everything, high),
        _user("all items, lowest", everything, low),
        _user("all items, mixed", everything, rng.choice([low, high], n_items)),
        _user("not a number", few, np.nan),
        _user("one rating is not a number", few, np.where(np.arange(few.size) == 0, np.nan, high)),
        _user("infinity", few, np.inf),
        _user("minus infinity", few, -np.inf),
        _user("huge ratings", few, 3e38),
        _user("huge ratings of both signs", few, rng.choice([-3e38, 3e38], few.size)),
        _user("ratings far out of range", few, 1e6 * high),
        _user("ratings just out of range", few, high + (high - low)),
        _user("one item, out of range", one, low - 1e4),
        _user("tiny ratings", few, 1e-42),
        _user("every item twice", twice, high),
        _user("one item very often", np.repeat(one, 64), high),
    ]
    return users + [_random_user(place, n_items, rating_range, rng) for place in range(n_random)]


def _random_user(
    place: int, n_items: int, rating_range: tuple[float, float], rng: np.random.Generator
) -> HostileUser:
    size = min(n_items, int(np.ceil(rng.pareto(0.6) + 1)))
    items = np.sort(rng.choice(n_items, size, replace=False)).astype(np.int32)
    low, high = rating_range
    ratings = rng.uniform(low, high, size)
    if place % 2:  # half of them keep to the range
        ratings = ratings + (high - low) * rng.standard_cauchy(size) ** 3
    return _user(f"random {place}", items, np.clip(ratings, -3e38, 3e38))


def _user(name: str, items: IndexArray, ratings: object) -> HostileUser:
    values = np.broadcast_to(np.asarray(ratings, dtype=np.float64), items.shape)
    return HostileUser(name=name, items=items, ratings=values.astype(np.float32))


def hostile_messages(
    requests: Sequence[Request], n_items: int, rng: np.random.Generator
) -> Iterator[tuple[str, Contribution]]:
    """Messages of one row: a canary at every bound, then the same with one thing wrong.

    Args:
        requests: what the round asks.
        n_items: size of the catalogue.
        rng: draws the canary.
    """
    row = canary_rows(requests, 1, n_items=n_items, rng=rng)
    yield "at every bound", row
    yield from _wrong_numbers(row)
    yield from _wrong_items(row)
    yield from _wrong_totals(row, requests)
    yield from _wrong_shapes(row)


def _wrong_numbers(row: Contribution) -> Iterator[tuple[str, Contribution]]:
    if row.vectors is not None:
        for value in (_SMALLEST, _LARGEST):
            yield f"vector full of {value}", replace(row, vectors=np.full_like(row.vectors, value))
        yield "vector twice as long", replace(row, vectors=row.vectors * np.int16(2))
    if row.weights is not None:
        for value in (_SMALLEST, -1, _LARGEST):
            yield f"weights {value}", replace(row, weights=np.full_like(row.weights, value))
        yield "weights twice as large", replace(row, weights=row.weights * np.int16(2))
    if row.responses is not None:
        for value in (_SMALLEST, RESPONSE_BOUND + 1, _LARGEST):
            yield f"responses {value}", replace(row, responses=np.full_like(row.responses, value))
        yield "largest responses", replace(row, responses=np.full_like(row.responses, RESPONSE_BOUND))


def _wrong_items(row: Contribution) -> Iterator[tuple[str, Contribution]]:
    if not row.items.size:
        return
    last = np.int32(row.n_items)
    for name, items in {
        "item beyond the catalogue": np.r_[row.items[:-1], last],
        "item far beyond the catalogue": np.r_[row.items[:-1], np.iinfo(np.int32).max],
        "negative item": np.r_[np.int32(-1), row.items[1:]],
        "one item several times": np.full_like(row.items, row.items[0]),
        "items out of order": row.items[::-1],
    }.items():
        yield name, replace(row, items=np.ascontiguousarray(items, dtype=np.int32))


def _wrong_totals(row: Contribution, requests: Sequence[Request]) -> Iterator[tuple[str, Contribution]]:
    for release in (r.release for r in requests if r.source is SumSource.TOTAL):
        extremes = [release.l2_bound + 1, np.iinfo(np.int64).max, np.iinfo(np.int64).min, -release.l2_bound]
        for value in extremes:
            totals = {**row.totals, release.name: np.full((1, release.width), value, dtype=np.int64)}
            yield f"{release.name} of {value}", replace(row, totals=totals)
    if row.totals:
        yield "no totals", replace(row, totals={})


def _wrong_shapes(row: Contribution) -> Iterator[tuple[str, Contribution]]:
    yield "another catalogue", replace(row, n_items=row.n_items + 1)
    if row.vectors is not None:
        wider: ShortArray = np.hstack([row.vectors, row.vectors])
        yield "longer vectors", replace(row, vectors=wider)
        yield "no vectors", replace(row, vectors=None)
    if row.weights is not None:
        yield "weights of another type", replace(row, weights=row.weights.astype(np.int32))
        yield "fewer weights", replace(row, weights=row.weights[1:])
    if row.responses is not None:
        yield "no responses", replace(row, responses=None)
