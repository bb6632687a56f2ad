"""``fedboard reproduce``: the list, an experiment from end to end, and what is refused before any work."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fedboard.simulations.experiments.jain import catalogue
from fedboard.simulations.experiments.jain.figure_2 import Figure2
from fedboard.simulations.experiments.personalisation.synthetic import SharedLinear
from tests.cli.conftest import Command


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same experiment on few users."""
    figure = Figure2(source=SharedLinear(users=300, examples=4, dimension=5), epsilons=(5.0,))
    found = tuple(replace(experiment, run=figure.run) for experiment in catalogue.EXPERIMENTS)
    monkeypatch.setattr(catalogue, "EXPERIMENTS", found)


def test_without_a_figure_it_says_what_there_is(fedboard: Command) -> None:
    everything, one = fedboard("reproduce"), fedboard("reproduce", "jain")

    for result in (everything, one):
        assert result.exit_code == 0, result.output
        assert "Error of personal models against epsilon" in result.stdout
    for paper in ("krichene", "liu", "epasto", "jain"):
        assert paper in everything.stdout
    assert "krichene" not in one.stdout
    assert "50,000 users" in one.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_an_experiment_leaves_figure_numbers_and_page(fedboard: Command, tmp_path: Path) -> None:
    out, numbers = tmp_path / "out", tmp_path / "numbers.json"

    result = fedboard("reproduce", "jain", "2", "--seeds", "1", "--out", out, "--json", numbers)

    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir()} == {"jain-2.svg", "jain-2.png", "numbers.json", "README.md"}
    record = json.loads(numbers.read_text())
    assert record == json.loads((out / "numbers.json").read_text())
    assert record["mse"]["private"]["5"] < record["mse"]["single"]["5"]
    assert record["seconds"] > 0
    assert "nonprivate" in result.stdout
    assert "seed 1" in result.stderr
    assert fedboard("reproduce", "jain", "2", "--out", out).exit_code == 2


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_numbers_alone_go_to_stdout(fedboard: Command, tmp_path: Path) -> None:
    result = fedboard("reproduce", "jain", "2", "--seeds", "1", "--out", tmp_path / "out", "--json", "-")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["figure"] == "2"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nobody",), "there are krichene, liu, epasto, jain"),
        (("jain", "7"), "there are 2"),
        (("jain", "2", "--json", "no/such/folder.json"), "a directory that exists"),
        (("jain", "2", "--data", "."), "leave out --data"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_sentence(
    fedboard: Command, arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    result = fedboard("reproduce", *arguments)

    assert result.exit_code == 2
    assert said in result.stderr
