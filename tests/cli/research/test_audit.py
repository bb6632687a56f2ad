"""``fedboard audit``: a verdict, an exit code, numbers for machines, and how long it will take."""

import json
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.contribution import Contribution
from fedboard.simulations.audit.subject import Plan, subject_of
from tests.cli.conftest import Command
from tests.simulations.audit.broken.mutants import mutant_named

pytestmark = pytest.mark.slow

KERNELS = ("--set", "run.kernels=compiled", "--workers", "1")
SMALL = ("--canaries", "400", "--set", "settings.rank=3", "--rounds", "2", *KERNELS)
USERS = ("--set", "data.synthetic.n_users=80")
FEW_ITEMS = ("--data", "synthetic", "--set", "data.synthetic.n_items=250", *USERS)

QUICK = partial(Plan, small_numbers=60, file_games=40, block=2_000)
"""A plan of the same parts with less of each than the command's own. How much a part notices with how much is said
where the parts are tested.
"""


QUICKEST = partial(Plan, small_numbers=10, file_games=4, block=0)
"""Where the numbers of large releases and the canaries are what is looked at."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedboard.simulations.audit.subject.Plan", QUICK)


@pytest.fixture(autouse=True)
def ledgers_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits write many ledgers that nobody reads again; where the system has a disk in memory they go there."""
    if os.access("/dev/shm", os.W_OK):
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")


def test_a_correct_run_is_audited_and_everything_is_written_down(fedboard: Command, tmp_path: Path) -> None:
    out = tmp_path / "audit"

    result = fedboard("audit", "--epsilon", "5", *SMALL, *FEW_ITEMS, "--out", out)

    assert result.exit_code == 0, result.output
    assert "Claimed: epsilon 5" in result.stdout
    assert re.search(r"^canary games, about 0:\d\d:\d\d left$", result.stderr, flags=re.MULTILINE)
    record = json.loads((out / "audit.json").read_text())
    assert record["epsilon_claimed"] == 5.0
    assert record["starts_at"] == "file"
    assert 0.0 < record["epsilon_lower_bound"] <= 5.0
    assert record["file"]["right"] <= record["file"]["games"]
    assert {entry["name"] for entry in record["releases"]} >= {"counts", "round-2/linear"}
    assert {entry["name"] for entry in record["board_only"]} == {"membership", "attribute"}
    assert all(finding["passed"] for finding in record["findings"])


def test_a_violation_is_said_and_is_the_exit_code(
    fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedboard.simulations.audit.subject.Plan", QUICKEST)
    monkeypatch.setattr(
        "fedboard.simulations.audit.subject.subject_of",
        lambda *given, **choices: mutant_named("no noise").break_it(subject_of(*given, **choices)),
    )

    result = fedboard("audit", "--epsilon", "5", *SMALL, *FEW_ITEMS, "--out", tmp_path, "--json")

    record = json.loads(result.stdout)
    assert record == json.loads((tmp_path / "audit.json").read_text())
    assert result.exit_code == 1
    assert record["violated"]
    assert record["epsilon_lower_bound"] > record["epsilon_claimed"]
    assert {f["part"] for f in record["findings"] if not f["passed"]} >= {"noise", "canaries"}


def louder(rows: Contribution) -> Contribution:
    """Vectors that nobody clipped."""
    return rows if rows.vectors is None else replace(rows, vectors=rows.vectors * np.int16(3))


def narrower(rows: Contribution) -> Contribution:
    """Vectors that lack a coordinate."""
    return rows if rows.vectors is None else replace(rows, vectors=rows.vectors[:, 1:])


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [(louder, "breaks its declared bound"), (narrower, "does not have the arrays, shapes and types")],
)
def test_a_check_of_the_runs_own_that_fails_is_a_failed_check_and_no_usage_error(
    fedboard: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Contribution], Contribution],
    sentence: str,
) -> None:
    contribute = AdaDpals.contribute
    monkeypatch.setattr(AdaDpals, "contribute", lambda *given: spoil(contribute(*given)))
    monkeypatch.setattr("fedboard.simulations.audit.subject.Plan", QUICKEST)

    result = fedboard("audit", "--algorithm", "adadpals", *SMALL, *FEW_ITEMS, "--out", tmp_path)

    record = json.loads((tmp_path / "audit.json").read_text())
    (failed,) = [found for found in record["findings"] if not found["passed"]]
    assert result.exit_code == 1, result.output
    assert record["violated"]
    assert record["epsilon_claimed"] == 5.0
    assert failed["part"] == "sensitivity"
    assert sentence in failed["detail"]
    assert re.search(rf"^FAILED +sensitivity .*{sentence}", result.stdout, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--algorithm", "als"), "algorithm must be one of"),
        (("--set", "privacy.participation={kind='poisson', probability=0.5}"), "everybody takes part"),
    ],
)
def test_what_cannot_be_audited_is_refused(
    fedboard: Command, arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    result = fedboard("audit", *SMALL, *FEW_ITEMS, *arguments, "--out", tmp_path)

    assert result.exit_code == 2
    assert sentence in result.stderr
