"""``fedboard audit``: a verdict, an exit code, and numbers for machines."""

import json
import os
import tempfile
from functools import partial
from pathlib import Path

import pytest

from fedboard.simulations.audit.audit import Plan
from tests.cli.conftest import Command

pytestmark = pytest.mark.slow

SMALL = ("--canaries", "400", "--rank", "3", "--rounds", "2", "--kernels", "plain", "--workers", "1")
FEW_ITEMS = (
    "--data",
    "synthetic",
    "--set",
    "data.synthetic.n_items=250",
    "--set",
    "data.synthetic.n_users=80",
)

QUICK = partial(Plan, small_numbers=60, file_games=40, random_users=8)
"""A plan of the same parts with less of each than the command's own. How much a part notices with how much is said
where the parts are tested.
"""


QUICKEST = partial(Plan, small_numbers=10, file_games=4, random_users=2)
"""Where the numbers of large releases and the canaries are what is looked at."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedboard.simulations.audit.audit.Plan", QUICK)


@pytest.fixture(autouse=True)
def ledgers_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits write many ledgers that nobody reads again; where the system has a disk in memory they go there."""
    if os.access("/dev/shm", os.W_OK):
        monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")


def test_a_correct_run_is_audited_and_everything_is_written_down(fedboard: Command, tmp_path: Path) -> None:
    out, numbers = tmp_path / "audit", tmp_path / "audit.json"

    result = fedboard("audit", "--epsilon", "5", *SMALL, *FEW_ITEMS, "--out", out, "--json", numbers)

    assert result.exit_code == 0, result.output
    assert "Claimed: epsilon 5" in result.stdout
    record = json.loads(numbers.read_text())
    assert record == json.loads((out / "audit.json").read_text())
    assert record["epsilon_claimed"] == 5.0
    assert record["starts_at"] == "file"
    assert 0.0 < record["epsilon_lower_bound"] <= 5.0
    assert record["file"]["right"] <= record["file"]["games"]
    assert {entry["name"] for entry in record["releases"]} >= {"counts", "round-2/linear"}
    assert {entry["name"] for entry in record["board_only"]} == {"membership", "attribute"}
    assert all(finding["passed"] for finding in record["findings"])
    assert (out / "audit.svg").stat().st_size > 1000
    assert (out / "audit.png").read_bytes().startswith(b"\x89PNG")


def test_a_violation_is_said_and_is_the_exit_code(
    fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedboard.simulations.audit.audit.Plan", QUICKEST)
    arguments = ("--broken", "no noise", "--out", tmp_path, "--json", "-")

    result = fedboard("audit", "--epsilon", "5", *SMALL, *FEW_ITEMS, *arguments)

    record = json.loads(result.stdout)
    assert result.exit_code == 1
    assert record["violated"]
    assert record["epsilon_lower_bound"] > record["epsilon_claimed"]
    assert {f["part"] for f in record["findings"] if not f["passed"]} >= {"noise", "canaries"}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--broken", "nothing"), "a broken run must be one of"),
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
