"""Algorithm 4 by command, at a small size: one booked draw an epsilon, and what the net leaves."""

from pathlib import Path

import pytest

from fedboard.common.errors import InputError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.simulations.config import DataConfig
from fedboard.simulations.datasets.synthetic.examples import SharedLinear
from research.jain.algorithm_4 import Algorithm4
from research.shared.experiment import Setting

SMALL = Algorithm4(
    source=SharedLinear(users=400, examples=2, dimension=2, rank=1), epsilons=(0.01, 100.0), radius=0.2
)


@pytest.mark.slow
def test_a_large_epsilon_finds_the_best_of_the_net_and_a_small_one_does_not(tmp_path: Path) -> None:
    found = SMALL.run(Setting(seeds=2, scratch=tmp_path, on_progress=lambda *_: None))

    mse = found.numbers["mse"]
    assert mse["nonprivate"]["100"] < mse["best-of-net"]["100"] <= mse["net"]["100"]
    assert mse["net"]["100"] < 2 * mse["best-of-net"]["100"] < mse["net"]["0.01"]
    assert found.numbers["grid_points"]["50 x 2"]["0.1"] > 1e200
    assert set(found.figures) == {"jain-algorithm-4"}
    with Ledger.open(tmp_path / "100-1" / "net.sqlite", read_only=True) as ledger:
        (event,) = ledger.events()
    assert event["mechanism"] == "exponential"
    assert 1.0 / event["noise_multiplier"] == pytest.approx(100.0)
    assert event["adjacency"] == "replace"


def test_it_takes_no_data_and_no_net_that_cannot_be_run(tmp_path: Path) -> None:
    setting = Setting(data=DataConfig(source="x"), scratch=tmp_path, on_progress=lambda *_: None)
    with pytest.raises(InputError, match="its own data"):
        SMALL.run(setting)
    with pytest.raises(InputError, match="tiny sizes"):
        Algorithm4(source=SharedLinear(dimension=50)).run(
            Setting(scratch=tmp_path, on_progress=lambda *_: None)
        )
