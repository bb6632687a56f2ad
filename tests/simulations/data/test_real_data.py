"""Real MovieLens files, found through FEDBOARD_DATA."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedboard.simulations.data import load_ratings

DATA = os.environ.get("FEDBOARD_DATA")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not DATA, reason="FEDBOARD_DATA is not set to a folder with ml-1m, ml-100k and ml-latest-small"
    ),
]


@pytest.mark.parametrize(
    ("name", "shape", "rating_range", "title"),
    [
        ("ml-1m", (6_040, 3_449, 999_714), (1.0, 5.0), "Toy Story (1995)"),
        ("ml-100k", (943, 1_682, 100_000), (1.0, 5.0), "Toy Story (1995)"),
        ("ml-latest-small", (610, 9_724, 100_836), (0.5, 5.0), "Toy Story (1995)"),
    ],
)
def test_movielens_as_published_is_read(name, shape, rating_range, title):
    folder = Path(str(DATA)) / name
    if not folder.is_dir():
        pytest.skip(f"FEDBOARD_DATA holds no {name}")

    ratings = load_ratings(folder)

    assert (ratings.n_users, ratings.n_items, ratings.n_ratings) == shape
    assert ratings.rating_range == rating_range
    assert ratings.name == name
    assert ratings.titles is not None
    assert ratings.titles[0] == title
    assert ratings.item_ids[0] == "1"
    assert (np.diff(ratings.item_ids.astype(np.int64)) > 0).all()
