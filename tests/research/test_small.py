"""Each experiment runs from end to end in seconds by its command and ``--small``, and leaves what it must."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from research.run import PAPERS, experiments_of
from research.shared.experiment import Experiment
from tests.pictures import leave_out
from tests.research.conftest import Command

EVERY = [experiment for paper in PAPERS for experiment in experiments_of(paper)]
LIKE_ANOTHER = {"krichene 6", "krichene 8", "krichene 9", "krichene table-4", "krichene tail", "epasto 3"}
"""Run by a function that another figure runs too, with other words, epsilons or data."""


def each(experiment: Experiment) -> object:
    name = f"{experiment.paper} {experiment.figure}"
    marks = [pytest.mark.slow, *([pytest.mark.thorough] if name in LIKE_ANOTHER else [])]
    return pytest.param(experiment, id=name, marks=marks)


@pytest.fixture
def put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ``--small`` changes in modules."""
    for experiment in EVERY:
        for name in experiment.small:
            folder, place, constant, *_ = name.split(".")
            module = import_module(f"research.{folder}.{place}")
            monkeypatch.setattr(module, constant, getattr(module, constant))
    # Drawing a report takes longer than everything else in a run this small.
    leave_out(monkeypatch)


@pytest.mark.usefixtures("put_back")
@pytest.mark.parametrize("experiment", [each(one) for one in EVERY])
def test_an_experiment_runs_small(experiment: Experiment, run: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"

    ended = run(experiment.paper, experiment.figure, "--small", "--out", out)

    assert ended.exit_code == 0, ended.output
    record = json.loads((out / "numbers.json").read_text())
    assert (record["paper"], record["figure"]) == (experiment.paper, experiment.figure)
    assert len(record["comparison"]) > 20
    described = {"paper", "figure", "title", "data", "comparison", "seconds", "settings"}
    assert [value for name, value in record.items() if name not in described and value]
    page = (out / "README.md").read_text()
    assert all(f"({path.name})" in page for path in out.glob("*.svg"))
    assert len(list(out.glob("*.svg"))) == len(list(out.glob("*.png")))
