"""The flag that says who takes part in a round."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Command = Callable[..., Result]


@pytest.mark.usefixtures("without_pictures")
def test_the_flag_replaces_what_the_file_says(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[privacy.participation]\nkind = "poisson"\nprobability = 0.5\n', encoding="utf-8")
    flags = ("--participation", "fixed-size:100", "--set", "privacy.adjacency=replace")
    flags += ("--no-baselines", "--out", tmp_path / "run")

    result = fedboard("simulate", file, *tiny, *flags)

    assert result.exit_code == 0, result.output
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    stated = [release["participation"] for release in certificate["releases"]]
    assert stated[0] == {"kind": "fixed-size", "size": 100, "round": "preparation"}
    assert {entry["round"] for entry in stated} == {"preparation", "round-1", "round-2", "round-3"}


@pytest.mark.parametrize("text", ["poisson", "poisson:2", "nobody", "fixed-size:-1"])
def test_a_participation_that_is_none_is_refused_before_anything_starts(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path, text: str
) -> None:
    result = fedboard("simulate", *tiny, "--participation", text, "--out", tmp_path / "run")

    assert result.exit_code == 2
    assert "participation" in result.stderr
    assert not (tmp_path / "run").exists()
