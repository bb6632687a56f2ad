"""Titles of films that were never made."""

import numpy as np

from fedboard.common.arrays import IndexArray

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
