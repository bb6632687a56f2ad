"""``fedboard tune`` on the command line; what a search does is tested with ``fedboard.simulations.tuning``."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_pictures")]


def test_a_search_is_told_resumed_and_its_settings_simulated(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    out, run = tmp_path / "tune", tmp_path / "run"

    found = fedboard(
        "tune", *tiny, "--algorithm", "adadpals", "--trials", "4", "--seeds", "0,1", "--out", out
    )
    again = fedboard("tune", "--out", out, "--resume", "--json")
    used = fedboard("simulate", out / "tuned.toml", *tiny, "--epsilon", "5", "--out", run, "--no-baselines")

    assert found.exit_code == again.exit_code == used.exit_code == 0, found.output + used.output
    assert "trial 0 of 3, seed 0: validation_rmse" in found.stderr
    assert "settings  validation_rmse  deviation" in found.stdout
    assert f"fedboard simulate {out / 'tuned.toml'} --data RATINGS --epsilon 5" in found.stdout
    summary = json.loads(again.stdout)
    assert summary["tuned"] == str(out / "tuned.toml")
    assert summary["best"]["mean"] <= summary["shipped"]["mean"]
    assert "fedboard tune chose for adadpals" in (run / "certificate.json").read_text()


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--data", "mine.csv"), 3, "a release that no ledger books"),
        (("--data", "mine.csv", "--public", " "), 3, "a release that no ledger books"),
        (("--algorithm", "als"), 2, "algorithm must be one of"),
        (("--seeds", "0,x"), 2, "--seeds must be a comma-separated list"),
        (("--search", "nowhere.toml"), 2, "nowhere.toml: no configuration can be read there"),
        (("--resume",), 2, "holds no search to resume"),
    ],
)
def test_what_cannot_be_searched_is_refused_and_leaves_nothing(
    fedboard: Command, tmp_path: Path, flags: tuple[str, ...], code: int, message: str
) -> None:
    result = fedboard("tune", *flags, "--out", tmp_path / "tune")

    assert result.exit_code == code
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "tune").exists()


def test_a_search_goes_on_only_as_it_was_started(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    fedboard(
        "tune", *tiny, "--algorithm", "adadpals", "--trials", "2", "--seeds", "0", "--out", tmp_path / "tune"
    )

    result = fedboard("tune", *tiny, "--out", tmp_path / "tune", "--resume")

    assert result.exit_code == 2
    assert "give --out DIR and --jobs alone" in result.stderr
