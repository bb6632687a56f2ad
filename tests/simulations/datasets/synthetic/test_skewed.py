"""Made-up data with the popularity of a data set: the skew that is asked for is the skew that is drawn."""

import numpy as np
import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.config import DataConfig, parse_config
from fedboard.simulations.datasets import Ratings, SyntheticConfig
from fedboard.simulations.datasets.synthetic.skewed import SHAPES, settings_of
from fedboard.simulations.problem import load_data


def small(source: str) -> Ratings:
    return load_data(DataConfig(source=source))


def popularity(ratings: Ratings) -> np.ndarray:
    return np.sort(np.bincount(ratings.items, minlength=ratings.n_items))[::-1]


@pytest.mark.parametrize(("top_tenth", "most_popular"), [(0.3, 0.34), (0.5, 0.5), (0.7, 0.5)])
def test_the_top_tenth_has_the_share_that_was_asked_for(top_tenth: float, most_popular: float) -> None:
    ratings = small(f"skewed:ml-10m,users=1500,items=1500,mean=60,top_tenth={top_tenth}")
    counts = popularity(ratings)

    assert counts[:150].sum() / counts.sum() == pytest.approx(top_tenth, abs=0.05)
    assert counts[0] / 1500 == pytest.approx(
        most_popular, abs=0.06
    )  # as asked, where the skew reaches so far
    assert counts.sum() / 1500 == pytest.approx(62, abs=6)  # log-normal around 60, nobody below 20


def test_shapes_have_the_sizes_that_the_paper_prints() -> None:
    sizes = {name: (shape["n_users"], shape["n_items"]) for name, shape in SHAPES.items()}
    ratings = {
        name: shape["n_users"] * shape["mean_ratings_per_user"] / 1e6 for name, shape in SHAPES.items()
    }

    assert sizes == {"ml-10m": (69_878, 10_677), "ml-20m": (136_677, 20_108), "msd": (571_355, 41_140)}
    assert ratings == pytest.approx({"ml-10m": 10.0, "ml-20m": 9.99, "msd": 33.63}, rel=0.01)
    assert SHAPES["ml-20m"]["top_tenth"] == 0.86
    assert all(SyntheticConfig(**shape).n_users for shape in SHAPES.values())


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("skewed:ml-10", "did you mean 'ml-10m'"),
        ("skewed:ml-10m,top_tenth", "must be KEY=NUMBER"),
        ("skewed:ml-10m,users=many", "must be KEY=NUMBER"),
        ('skewed:ml-10m,users="5"', "must be KEY=NUMBER"),
    ],
)
def test_what_is_no_shape_is_named(source: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        settings_of(source)
    with pytest.raises(InputError, match=said):
        parse_config({"data": {"source": source}})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("top_tenth=0.1", "top_tenth must be in"),
        ("most_popular=0", "most_popular must be in"),
        ("least_popular=1", "least_popular must be in"),
        ("users=300,items=100,mean=25,top_tenth=0.7", "cannot be had"),
        ("colour=3", "colour"),
    ],
)
def test_a_skew_that_cannot_be_had_is_refused(wrong: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        small(f"skewed:ml-10m,{wrong}")
