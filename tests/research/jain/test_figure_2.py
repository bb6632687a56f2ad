"""Figure 2 at a small size: every method, every epsilon, and the order that the paper has."""

from pathlib import Path

import pytest

from fedboard.simulations.data.synthetic.examples import SharedLinear
from research.jain.figure_2 import Figure2
from research.shared.experiment import Setting

SMALL = Figure2(source=SharedLinear(users=1200, examples=6, dimension=8), epsilons=(2.0, 5.0))


@pytest.mark.slow
def test_the_private_representation_lies_between_no_privacy_and_the_other_baselines(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    setting = Setting(
        seeds=2, scratch=tmp_path, on_progress=lambda phase, done, total: steps.append((done, total))
    )

    found = SMALL.run(setting)

    mse = found.numbers["mse"]
    assert set(mse) == {"private", "single", "own", "nonprivate"}
    for key in ("2", "5"):
        assert mse["nonprivate"][key] < mse["private"][key] < mse["own"][key] < mse["single"][key]
    assert mse["private"]["5"] < mse["private"]["2"]
    assert set(found.numbers["mse_variants"]) == {"disjoint-cohorts", "label-answers"}
    assert set(found.figures) == {"jain-2"}
    assert found.settings["seeds"] == [1, 2]
    assert found.settings["adjacency"] == "replace"
    assert steps[-1][0] == steps[-1][1]
    assert "1,200 users" in found.comparison
