"""Runs that are split by time: from the command line, secure noise too, and resumed with the same dates."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fedboard.cli.main import commands
from tests.simulations.runs.removal import write_rows

pytestmark = pytest.mark.slow
ITEMS = [str(number) for number in range(1, 21)]
ROWS = [(str(u), i, float(1 + (u * int(i)) % 5)) for u in range(60) for i in ITEMS if (u + int(i)) % 4]


def run(folder: Path, place: Path, *more: str) -> Result:
    words = f"simulate --data {folder} --set data.format=movielens-1m --set run.kernels=numpy"
    words += " --no-baselines --no-report --set settings.rank=2"
    arguments = [*words.split(), "--out", str(place), *more]
    return CliRunner().invoke(commands, arguments)


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
@pytest.mark.parametrize(
    ("split", "another"),
    [("leave_last=1", "leave_last=2"), ("test_from=1970-01-05", "test_from=1970-01-04")],
)
def test_the_command_line_splits_by_time(feedback: str, split: str, another: str, tmp_path: Path) -> None:
    write_rows(tmp_path / "data", ROWS, ITEMS, "movielens")
    place = tmp_path / "run"
    how = ("--feedback", feedback, "--set", f"split.{split}")
    secure = ("--noise", "secure", "--set", "data.catalogue=listed")

    first = run(tmp_path / "data", place, *how, *secure)
    again = run(tmp_path / "data", place, *how, *secure, "--resume")
    other = run(tmp_path / "data", place, *how, *secure, "--resume", "--set", f"split.{another}")

    assert first.exit_code == 0, first.output
    assert again.exit_code == 0, again.output
    assert other.exit_code == 2
    assert "was started with another 'split'" in " ".join(other.output.split())
    assert ("recall@20" if feedback == "implicit" else "RMSE") in first.output


def test_data_that_do_not_say_when_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        commands, f"simulate --data synthetic --set split.leave_last=1 --out {tmp_path / 'run'}".split()
    )

    assert result.exit_code == 2
    assert "made-up ratings have no times, so they cannot be split by them" in " ".join(result.output.split())
    assert not (tmp_path / "run").exists()
