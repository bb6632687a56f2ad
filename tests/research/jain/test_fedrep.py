"""Private FedRep beside alternating minimisation, at a small size: every place, every method, and the order."""

from pathlib import Path

import pytest

from fedboard.simulations.data.synthetic.examples import SharedLinear
from research.jain.fedrep import FedRepBeside, _privacy_ratios
from research.shared.experiment import Setting

SMALL = FedRepBeside(
    base=SharedLinear(users=600, examples=6, dimension=8),
    epsilon=3.0,
    users=(600,),
    dimensions=(6, 8),
    ranks=(2,),
    epsilons=(1.0, 3.0),
    theirs=SharedLinear(users=600, examples=6, dimension=10),
    their_epsilons=(4.0,),
)
AXES = {
    "users": ["600"],
    "dimension": ["6", "8"],
    "rank": ["2"],
    "epsilon": ["1", "3"],
    "epsilon_at_their_size": ["4"],
}


@pytest.mark.slow
def test_every_method_has_a_number_at_every_place_and_fedrep_is_the_better_private_one(
    tmp_path: Path,
) -> None:
    found = SMALL.run(Setting(seeds=1, scratch=tmp_path, on_progress=lambda *_: None))

    for axis, values in AXES.items():
        mse = found.numbers[f"mse_by_{axis}"]
        assert {name: list(errors) for name, errors in mse.items()} == dict.fromkeys(mse, values)
        for value in values:
            assert mse["nonprivate"][value] < mse["fedrep"][value] < mse["altmin"][value]
            assert mse["altmin"][value] < mse["altmin-as-printed"][value]
            assert mse["altmin"][value] < mse["own"][value] < mse["single"][value]
    assert found.numbers["mse_by_users"]["fedrep"]["600"] == found.numbers["mse_by_epsilon"]["fedrep"]["3"]
    assert set(found.figures) == {"jain-fedrep"}
    assert found.settings["seeds"] == [1]


def test_ratios_are_of_what_privacy_adds() -> None:
    errors = {
        "nonprivate": {"1": 1.0, "2": 1.0},
        "fedrep": {"1": 1.5, "2": 1.0},
        "altmin": {"1": 3.0, "2": 2.0},
        "fedrep-as-stated": {"1": 2.0, "2": 3.0},
        "altmin-as-printed": {"1": 4.0, "2": 2.0},
    }

    found = _privacy_ratios(errors)

    assert found["altmin / fedrep"]["1"] == 4.0
    assert found["altmin / fedrep"]["2"] is None  # nothing is added, so there is nothing to divide by
    assert found["as printed / as stated"] == {"1": 3.0, "2": 0.5}
