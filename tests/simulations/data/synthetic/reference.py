"""What made-up people rate, person by person with NumPy: slow and plain, and what compiled code must equal."""

import numpy as np

from fedboard.common.arrays import BitArray, Float32Array, IndexArray, IntArray
from fedboard.simulations.data.synthetic import people_tables as words
from fedboard.simulations.data.synthetic.people_tables import ACCEPTED, LEAST_ACCEPTED, Tables

_UNIT = 1 << 16


def counts_of(tables: Tables, start: int, stop: int) -> IntArray:
    """How much each person ``start:stop`` rates, int64, shape (stop - start,)."""
    word = words.word(words.streams_of(tables.base, start, stop), words.ACTIVITY)
    at, value = tables.knots
    level = (word >> np.uint64(40)).astype(np.int64)  # in 2^-24
    dither = (word & np.uint64(0xFFF)).astype(np.int64)
    place = np.searchsorted(at * 256, level, side="right") - 1
    rise, width = np.diff(value)[place], np.diff(at)[place] * 256
    beyond = value[place] + (level - at[place] * 256) * rise // width
    fewest, most = tables.numbers[:2]
    found: IntArray = np.minimum(fewest + ((beyond + dither) >> 12), most)
    return found


def fill_rows(tables: Tables, start: int, indptr: IntArray, items: IndexArray, ratings: Float32Array) -> None:
    """Fill what some people rate, and how.

    Args:
        tables: of the population.
        start: number of the first person.
        indptr: int64, shape (n_people + 1,), from 0: where each person's ratings are.
        items: int32, shape (n_ratings,): filled in, ascending within a person.
        ratings: float32, shape (n_ratings,): filled in.
    """
    streams = words.streams_of(tables.base, start, start + indptr.size - 1)
    for row, stream in enumerate(streams):
        own = slice(int(indptr[row]), int(indptr[row + 1]))
        person = np.array([stream])
        tastes = _tastes(tables, person)
        found = _chosen(tables, person, tastes, own.stop - own.start)
        items[own] = found
        ratings[own] = _rated(tables, person, tastes, found)


def _tastes(tables: Tables, stream: BitArray) -> Float32Array:
    """Of one person: float32 holding whole numbers, shape (TASTES,)."""
    directions = np.arange(tables.taste_spreads.size, dtype=np.int64)
    bells = words.bell(words.word(stream, words.FIRST_TASTE + directions))
    found: Float32Array = words.scaled(bells, tables.taste_spreads).astype(np.float32)
    return found


def _chosen(tables: Tables, stream: BitArray, tastes: Float32Array, wanted: int) -> IndexArray:
    """Which items one person rates, int32, ascending: the first so many that she comes across and takes."""
    n_items, drawn_to, tries = tables.keep.size, int(tables.numbers[8]), int(tables.numbers[9])
    most = wanted * tries
    word = words.word(stream, words.FIRST_CANDIDATE + np.arange(most, dtype=np.int64))
    place = (((word >> np.uint64(32)) * np.uint64(n_items)) >> np.uint64(32)).astype(np.int64)
    stays = ((word >> np.uint64(16)) & np.uint64(0xFFFF)).astype(np.int64) < tables.keep[place]
    item = np.where(stays, place, tables.other[place])
    liking = (tables.taste[item] @ tastes).astype(np.int64)
    chance = np.clip(ACCEPTED + ((liking * drawn_to) >> 10), LEAST_ACCEPTED, _UNIT)
    taken = item[(word & np.uint64(0xFFFF)).astype(np.int64) < chance]
    _, first = np.unique(taken, return_index=True)
    chosen = set(taken[np.sort(first)[:wanted]].tolist())
    near = int(item[-1]) if most else 0
    while len(chosen) < wanted:
        near = (near + 1) % n_items
        chosen.add(near)
    return np.array(sorted(chosen), dtype=np.int32)


def _rated(tables: Tables, stream: BitArray, tastes: Float32Array, items: IndexArray) -> Float32Array:
    """How one person rates some items: stars, float32."""
    person_spread, noise_spread = tables.numbers[2:4].tolist()
    level = words.scaled(words.bell(words.word(stream, words.LEVEL)), person_spread)
    active = (words.word(stream, words.ACTIVITY) >> np.uint64(48)).astype(np.int64)
    level -= ((active - _UNIT // 2) * tables.numbers[10]) >> 16
    noise = words.scaled(
        words.bell(words.word(stream, words.FIRST_RATING + items.astype(np.int64))), noise_spread
    )
    liking = (tables.taste[items] @ tastes).astype(np.int64)
    score = level + tables.level[items] + liking + noise
    stars: Float32Array = (1 + np.searchsorted(tables.numbers[4:8], score, side="right")).astype(np.float32)
    return stars
