"""What was written is read back, whatever the ids are, in the order of the ids and not of the rows."""

import csv
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.simulations.data import load_ratings
from tests.simulations.data.conftest import contents

# Any text a CSV cell can hold; a carriage return or line feed inside quotes included.
IDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\ufffd"), min_size=1, max_size=5)
VALUES = st.floats(0.5, 5, width=32)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.tuples(IDS, IDS), VALUES, min_size=1, max_size=20),
    st.sampled_from([("any.csv", ","), ("any.tsv", "\t")]),
    st.randoms(use_true_random=False),
)
def test_what_was_written_is_read_back_whatever_the_order_of_its_rows(expected, kind, random):
    name, delimiter = kind
    rows, loaded = list(expected.items()), []
    with TemporaryDirectory() as folder:
        for order in (rows, random.sample(rows, len(rows))):
            with (Path(folder) / name).open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_NONNUMERIC)
                writer.writerow(["user", "item", "rating"])
                writer.writerows([user, item, value] for (user, item), value in order)
            loaded.append(load_ratings(Path(folder) / name, rating_range=(0.5, 5)))

    first, second = loaded
    assert contents(first) == expected
    assert (np.diff(first.users.astype(np.int64) * first.n_items + first.items) > 0).all()
    for field in ("users", "items", "values", "user_ids", "item_ids"):
        np.testing.assert_array_equal(getattr(first, field), getattr(second, field))
