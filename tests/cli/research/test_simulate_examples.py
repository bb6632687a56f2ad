"""``fedboard simulate`` on examples: what is printed speaks of features and labels."""

from pathlib import Path

import pytest

from tests.cli.conftest import Command

RESEARCH = Path(__file__).parents[3] / "research"


@pytest.mark.slow
def test_a_run_on_examples_speaks_of_examples(fedboard: Command, tmp_path: Path) -> None:
    made_up = ("--set", "data.synthetic.users=60", "--set", "data.synthetic.dimension=4")

    ended = fedboard(
        "simulate",
        "--algorithm",
        f"{RESEARCH}/jain/fedrep_private.py:ALGORITHM",
        *made_up,
        "--no-baselines",
        "--out",
        str(tmp_path / "run"),
    )

    assert ended.exit_code == 0, ended.output
    assert "60 users, 4 features, " in ended.stderr
    assert "held-out labels" in ended.stdout
    assert "stars" not in ended.stdout
    assert "rating" not in ended.stdout.partition("RMSE:")[2]


def test_an_unknown_name_is_told_those_on_examples_too(fedboard: Command) -> None:
    ended = fedboard("simulate", "--algorithm", "fedrep")

    assert ended.exit_code == 2
    assert "on examples one of representation" in ended.output
