import json

import numpy as np
import pytest

from fedboard.simulations.data import Ratings, Triples, describe


def small(values: list[float], test: Triples | None = None) -> Ratings:
    return Ratings(
        users=np.array([0, 0, 0, 2], dtype=np.int32),
        items=np.array([0, 1, 2, 0], dtype=np.int32),
        values=np.array(values, dtype=np.float32),
        user_ids=np.arange(3),
        item_ids=np.array(["a", "b", "c", "d"]),
        titles=None,
        rating_range=(1.0, 5.0),
        name="small",
        test=test,
    )


def test_summary_counts_by_hand():
    summary = describe(small([1, 5, 5, 3]))

    assert (summary["users"], summary["items"], summary["ratings"]) == (3, 4, 4)
    assert summary["density"] == 4 / 12
    assert summary["rating_range"] == [1.0, 5.0]
    assert summary["ratings_per_user"]["median"] == 1
    assert summary["ratings_per_user"]["maximum"] == 3
    expected = {
        "mean": 1.0,
        "minimum": 0.0,
        "p25": 0.75,
        "median": 1.0,
        "p75": 1.25,
        "p95": 1.85,
        "maximum": 2.0,
    }
    assert summary["ratings_per_item"] == pytest.approx(expected)
    assert summary["share_of_top_items"] == 0.5
    assert summary["values"] == [[1.0, 1], [3.0, 1], [5.0, 2]]
    assert summary["has_titles"] is False
    assert summary["has_own_test"] is False


def test_summary_says_that_it_is_not_private_and_fits_json():
    test = Triples(users=np.zeros(1, np.int32), items=np.full(1, 3, np.int32), values=np.ones(1, np.float32))
    summary = describe(small([1, 5, 5, 3], test))

    assert "not private" in summary["note"]
    assert summary["test_ratings"] == 1
    assert json.loads(json.dumps(summary)) == summary
