"""``fedboard audit --controls`` on broken runs: each known bug is caught, correct and empty runs are not."""

import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fedboard.cli.main import commands
from fedboard.simulations.audit.audit import Plan
from fedboard.simulations.audit.broken.mutants import mutants

pytestmark = pytest.mark.slow

SMALL = {"n_users": 90, "n_items": 300, "mean_ratings_per_user": 15}
QUICK = partial(Plan, small_numbers=40, random_users=8)
"""Less than the command's own 100 and 20, of what is dearest: what is broken in small releases here has no noise at
all, and the large ones show the rest. Correct runs are flagged as rarely: every check keeps its level.
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Result, Path]]:
    """The command, once for all tests of this file; ledgers that nobody reads again go where these folders are."""
    place, before = tmp_path_factory.mktemp("controls"), tempfile.tempdir
    tempfile.tempdir = str(place)
    patched = pytest.MonkeyPatch()
    patched.setattr("fedboard.simulations.audit.audit.Plan", QUICK)
    flags = [
        "--algorithm",
        "adadpals",
        "--rank",
        "3",
        "--rounds",
        "2",
        "--kernels",
        "compiled",
        "--data",
        "synthetic",
    ]
    for name, value in SMALL.items():
        flags += ["--set", f"data.synthetic.{name}={value}"]
    flags += ["--canaries", "300", "--repeat", "1", "--workers", "1", "--json", str(place / "controls.json")]
    yield CliRunner().invoke(commands, ["audit", "--controls", *flags]), place / "controls.json"
    patched.undo()
    tempfile.tempdir = before


@pytest.fixture(scope="module")
def record(ended: tuple[Result, Path]) -> dict[str, Any]:
    """What it wrote."""
    read: dict[str, Any] = json.loads(ended[1].read_text())
    return read


def test_what_was_missed_is_counted_and_is_the_exit_code(ended: tuple[Result, Path]) -> None:
    result, _ = ended

    assert result.exit_code == 0, result.output
    assert "0 of 14 broken runs missed, 0 false alarms" in result.stdout


def test_every_mutant_is_caught(record: dict[str, Any]) -> None:
    names = [*(mutant.name for mutant in mutants()), "second server without noise"]
    controls = record["controls"]

    assert [control["name"] for control in controls["mutants"]] == names
    assert {control["name"] for control in controls["mutants"] if not control["judged_rightly"]} == set()
    assert controls["missed"] == 0


def test_correct_and_empty_runs_are_not(record: dict[str, Any]) -> None:
    assert record["controls"]["false_alarms"] == 0
    assert [control["epsilon_lower_bound"] for control in record["controls"]["null"]] == [0.0]


def test_each_bug_is_caught_where_it_shows(record: dict[str, Any]) -> None:
    caught = {control["name"]: set(control["caught_by"]) for control in record["controls"]["mutants"]}

    assert caught["unclipped labels"] == caught["unclipped vectors"] == {"sensitivity"}
    assert "sensitivity" in caught["weights not normalised"] & caught["data-dependent normaliser"]
    assert {"noise", "canaries"} <= caught["no noise"]
    assert {"file", "canaries"} <= caught["one generator for the split"]
    assert {"noise", "canaries"} <= caught["mean over the exact number"]
    assert "noise" in caught["one exact cell"] & caught["overlapping stream"]
    assert "course" in caught["round skipped by its sum"]
    assert {"noise", "canaries"} <= caught["second server without noise"]
    assert "noise" in caught["noise x 0.8"] & caught["same noise in two rounds"]
    assert "noise" in caught["count released twice"]


def test_the_record_counts_what_was_missed(record: dict[str, Any]) -> None:
    assert record["controls"]["missed"] == 0
    assert record["controls"]["false_alarms"] == 0
    assert record["starts_at"] == "file"
    assert len(record["controls"]["mutants"]) == len(mutants()) + 1
    assert all(control["judged_rightly"] for control in record["controls"]["mutants"])
