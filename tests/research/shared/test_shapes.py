"""Shapes of data sets: sizes as papers print them, and what is no shape is named."""

import pytest

from fedboard.common.errors import InputError
from fedboard.simulations.data import SyntheticConfig
from research.shared.shapes import SHAPES, settings_of


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
