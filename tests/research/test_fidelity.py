"""The page of fidelity is made of its file, every command on it exists and runs, every place and test is there."""

import ast
import json
import runpy
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.simulations import simulate
from research.epasto import catalogue as epasto
from research.jain import catalogue as jain
from research.krichene import catalogue as krichene
from research.liu import catalogue as liu
from research.registry import PAPERS, experiments_of
from research.shared.experiment import Outcome, Setting
from tests.cli.conftest import Command, fedboard  # noqa: F401

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "research" / "results" / "fidelity.py"))
ROWS: dict[str, list[dict[str, Any]]] = SCRIPT["rows"]()
EACH = [pytest.param(row, id=f"{paper} {row['name']}") for paper, own in ROWS.items() for row in own]
COMMANDS = sorted({row["command"] for own in ROWS.values() for row in own if "command" in row})


@cache
def functions_of(place: str) -> dict[str, str]:
    text = (ROOT / place).read_text(encoding="utf-8")
    return {
        node.name: ast.unparse(node)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
    }


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ratings of a few people, for commands that would make or read many."""
    place = tmp_path_factory.mktemp("small") / "small.npz"
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((60, 25)) < 0.5)
    np.savez(
        place,
        user=users.astype(np.int32),
        item=items.astype(np.int32),
        rating=rng.integers(1, 6, users.size).astype(np.float32),
        item_id=np.arange(25, dtype=np.int32),
    )
    return place


def test_the_page_is_what_would_be_written() -> None:
    page = (ROOT / "research" / "fidelity.md").read_text(encoding="utf-8")
    assert page == SCRIPT["page"](), "run python research/results/fidelity.py"


def test_every_experiment_there_is_has_a_row() -> None:
    known = {f"{paper} {each.figure}" for paper in PAPERS for each in experiments_of(paper)}
    rows = {SCRIPT["key_of"](command) for command in COMMANDS} - {None}
    assert rows == known
    kept = json.loads((ROOT / "research" / "results" / "printed.json").read_text(encoding="utf-8"))
    others = {command for command in COMMANDS if SCRIPT["key_of"](command) is None}
    assert set(kept) == known | others, "each has printed something, with seconds and memory"
    assert all(record["seconds"] >= 0 and record["peak_mib"] > 0 for record in kept.values())


@pytest.mark.parametrize("row", EACH)
def test_places_and_tests_of_a_row_are_there(row: dict[str, Any]) -> None:
    for place in row.get("where", ()):
        assert (ROOT / place).is_file(), place
    if "command" in row:
        file, _, name = row["tested"].partition("::")
        assert name in functions_of(file), row["tested"]


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.startswith("python research/run.py")])
def test_a_reproduction_is_asked_for_by_its_command_as_it_stands(
    command: str,
    run: Command,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Through the command line; what it runs is run at test size by the test that its row names."""
    heard: list[Setting] = []

    def begin(setting: Setting) -> Outcome:
        heard.append(setting)
        return Outcome(numbers={"a": 1}, settings={}, comparison="Here.", figures={})

    for paper in (krichene, liu, epasto, jain):
        monkeypatch.setattr(paper, "EXPERIMENTS", tuple(replace(e, run=begin) for e in paper.EXPERIMENTS))
    result = run(*shlex.split(command)[2:], "--out", tmp_path / "out")

    assert result.exit_code == 0, result.output
    assert len(heard) == 1


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in COMMANDS if not c.startswith("python research/run.py")])
def test_any_other_command_runs_on_few_ratings(
    command: str,
    fedboard: Command,  # noqa: F811
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = [str(small) if word == "synthetic" else word for word in shlex.split(command)[1:]]
    monkeypatch.chdir(tmp_path)
    # Drawing a report takes longer than everything else in a run this small.
    monkeypatch.setattr(simulate, "write_report", lambda run: run / "report.html")
    if words[0] == "simulate" and "--set" not in words and "--rounds" not in words:
        words += ["--set", "settings.steps=2"] if "adadpsgd" in command else ["--rounds", "1"]
    result = fedboard(*words, "--rating-range", "1,5")

    assert result.exit_code == 0, result.output


def test_what_a_run_printed_is_kept_with_its_seconds_and_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take: Callable[..., None] = SCRIPT["take"]
    kept = tmp_path / "kept.json"
    monkeypatch.setitem(take.__globals__, "PRINTED", kept)
    record = {"paper": "liu", "figure": "1", "comparison": "Here.", "seconds": 2.5, "peak_mib": 90}
    (tmp_path / "numbers.json").write_text(json.dumps(record))

    take([f"{tmp_path}=--seeds 2"])

    assert json.loads(kept.read_text()) == {
        "liu 1": {"comparison": "Here.", "seconds": 2.5, "peak_mib": 90, "flags": "--seeds 2"}
    }
