"""A small finished run that all tests of the face read."""

from pathlib import Path

import pytest

from fedboard.simulations.config import parse_config
from fedboard.simulations.simulate import simulate


@pytest.fixture(scope="session")
def run_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished seeded run; to be read only."""
    out = tmp_path_factory.mktemp("face") / "run"
    made_up = {"n_users": 150, "n_items": 40, "mean_ratings_per_user": 12.0}
    config = {
        "data": {"synthetic": made_up},
        "settings": {"rank": 2, "rounds": 1},
        "run": {"baselines": False, "evaluate_rounds": False, "kernels": "numpy"},
    }
    simulate(parse_config(config), out, report=False)
    return out
