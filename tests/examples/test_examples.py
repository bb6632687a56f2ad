"""The examples run as they stand."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedboard.simulations.config import parse_config, read_config
from fedboard.simulations.runs.calibrated import build_task

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
def test_the_script_makes_a_certified_board(tmp_path: Path) -> None:
    command = [sys.executable, EXAMPLES / "simulate.py", tmp_path / "run"]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)

    assert ended.returncode == 0, ended.stderr
    assert "at epsilon 5" in ended.stdout
    assert "the certificate holds: True" in ended.stdout
    assert (tmp_path / "run" / "report.html").exists()


def test_every_configuration_is_valid() -> None:
    for path in EXAMPLES.glob("*.toml"):
        build_task(parse_config(read_config(path)), rating_range=(1.0, 5.0), backend="numpy")
