import csv
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.simulations.data import Ratings, load_ratings
from tests.simulations.data.conftest import contents

# Any text a CSV cell can hold; a carriage return or line feed inside quotes included.
IDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\ufffd"), min_size=1, max_size=5)
NUMBERS = st.integers(0, 2**31 - 1)
VALUES = st.floats(0.5, 5, width=32)


def assert_canonical(ratings: Ratings) -> None:
    keys = ratings.users.astype(np.int64) * ratings.n_items + ratings.items
    assert (np.diff(keys) > 0).all()
    assert (np.bincount(ratings.users, minlength=ratings.n_users) > 0).all()
    assert (np.bincount(ratings.items, minlength=ratings.n_items) > 0).all()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.tuples(IDS, IDS), VALUES, min_size=1, max_size=20), st.sampled_from([",", "\t"]))
def test_written_text_file_reads_back(expected, delimiter):
    with TemporaryDirectory() as folder:
        path = Path(folder) / ("any.csv" if delimiter == "," else "any.tsv")
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_NONNUMERIC)
            writer.writerow(["user", "item", "rating"])
            writer.writerows([user, item, value] for (user, item), value in expected.items())

        ratings = load_ratings(path, rating_range=(0.5, 5))

    assert contents(ratings) == expected
    assert_canonical(ratings)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.tuples(NUMBERS, NUMBERS), VALUES, min_size=1, max_size=20))
def test_written_movielens_file_reads_back(expected):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.csv"
        lines = [f"{user},{item},{value!r},0" for (user, item), value in expected.items()]
        path.write_text("\n".join(["userId,movieId,rating,timestamp", *lines]))

        ratings = load_ratings(path)

    assert contents(ratings) == {(str(user), str(item)): value for (user, item), value in expected.items()}
    assert_canonical(ratings)
    assert (np.diff(ratings.user_ids) > 0).all()
    assert (np.diff(ratings.item_ids.astype(np.int64)) > 0).all()


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(st.tuples(IDS, IDS), VALUES, min_size=2, max_size=20), st.randoms(use_true_random=False)
)
def test_order_of_rows_does_not_matter(expected, random):
    rows = list(expected.items())
    shuffled = random.sample(rows, len(rows))
    loaded = []
    with TemporaryDirectory() as folder:
        for number, order in enumerate((rows, shuffled)):
            path = Path(folder) / f"{number}.csv"
            with path.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
                writer.writerow(["user", "item", "rating"])
                writer.writerows([user, item, value] for (user, item), value in order)
            loaded.append(load_ratings(path, rating_range=(0.5, 5)))

    first, second = loaded
    for name in ("users", "items", "values", "user_ids", "item_ids"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
