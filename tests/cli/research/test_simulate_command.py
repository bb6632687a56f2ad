"""``fedboard simulate``: who takes part in a round, a run of one user, and runs on examples."""

import json
from pathlib import Path

import pytest

from fedboard.cli.research.summary import metrics_text
from tests.cli.conftest import Command


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


def test_a_run_of_one_user_is_refused_before_anything_is_spent(fedboard: Command, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text(
        "user,item,rating\n" + "".join(f"1,{i},{1 + i % 5}\n" for i in range(20))
    )

    refused = fedboard(
        *("simulate", "--data", tmp_path / "one.csv", "--rating-range", "1,5", "--set", "run.kernels=numpy"),
        *("--out", tmp_path / "run"),
    )

    assert refused.exit_code == 2
    assert "one user alone has ratings to learn from" in refused.stderr
    assert not (tmp_path / "run" / "ledger.sqlite").exists()


def test_a_run_that_nothing_was_held_out_from_says_so() -> None:
    told = metrics_text([("residual", {})], "epsilon 5", {})

    assert told.startswith("Nothing was judged: no rating is held out")


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
