"""Made-up data with the popularity of a data set: the skew that is asked for is the skew that is drawn."""

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.data import Ratings
from fedboard.simulations.problem import load_data
from fedboard.simulations.sections import DataConfig


def small(**changes: float) -> Ratings:
    usual = {"n_users": 1500, "n_items": 1500, "mean_ratings_per_user": 60, "minimum_ratings_per_user": 20}
    return load_data(DataConfig(synthetic={**usual, "most_popular": 0.5, **changes}))


def popularity(ratings: Ratings) -> np.ndarray:
    return np.sort(np.bincount(ratings.items, minlength=ratings.n_items))[::-1]


@pytest.mark.parametrize(("top_tenth", "most_popular"), [(0.3, 0.34), (0.5, 0.5), (0.7, 0.5)])
def test_the_top_tenth_has_the_share_that_was_asked_for(top_tenth: float, most_popular: float) -> None:
    ratings = small(top_tenth=top_tenth)
    counts = popularity(ratings)

    assert counts[:150].sum() / counts.sum() == pytest.approx(top_tenth, abs=0.05)
    assert counts[0] / 1500 == pytest.approx(
        most_popular, abs=0.06
    )  # as asked, where the skew reaches so far
    assert counts.sum() / 1500 == pytest.approx(62, abs=6)  # log-normal around 60, nobody below 20


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"top_tenth": 0.1}, "top_tenth must be in"),
        ({"most_popular": 0}, "most_popular must be in"),
        ({"least_popular": 1}, "least_popular must be in"),
        ({"n_users": 300, "n_items": 100, "mean_ratings_per_user": 25, "top_tenth": 0.7}, "cannot be had"),
        ({"colour": 3}, "colour"),
    ],
)
def test_a_skew_that_cannot_be_had_is_refused(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        small(**wrong)
