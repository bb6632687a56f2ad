"""Each command once on good input: what it prints, what it writes, what ``--json`` gives."""

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.client.ratings.cohort_file import CohortFile
from fedboard.common.algorithms.shared.ratings_config import Feedback
from fedboard.common.board import Board
from fedboard.simulations.config import parse_config
from fedboard.simulations.evaluation.references import reference_names
from tests.cli.conftest import Command
from tests.walk import walked


@pytest.fixture
def my_ratings(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text("item,rating\n1,5\n2,1\n3,4\n", encoding="utf-8")
    return path


def test_a_run_writes_everything_and_says_what_it_promises(fedboard: Command, finished: Path) -> None:
    written = {path.name for path in finished.iterdir()}
    boards = sorted(path.name for path in (finished / "boards").iterdir())

    assert written >= {
        *("config.json", "metrics.jsonl", "ledger.sqlite", "certificate.json"),
        *("baselines.json", "report.html"),
    }
    assert boards == [f"board-000{version}.board" for version in range(5)]


@pytest.mark.slow
@pytest.mark.usefixtures("without_pictures")
def test_a_run_with_json_prints_one_object_and_nothing_else(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    result = fedboard("simulate", *tiny, "--no-baselines", "--json", "--out", tmp_path / "run")

    record = json.loads(result.stdout)
    board = Board.load(Path(record["board"]))
    assert result.exit_code == 0
    assert record["board_digest"] == board.digest
    assert record["guarantee"]["epsilon"] == pytest.approx(5.0, rel=1e-6)
    assert record["noise_private"] is False
    assert record["metrics"]["test_rmse"] > 0
    assert [line.split(":")[0] for line in result.stderr.splitlines()[1:5]] == [
        "preparation",
        "biases",
        "round 1 of 2",
        "round 2 of 2",
    ]


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_a_run_draws_no_report_where_none_is_wanted(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path, as_json: tuple[str, ...]
) -> None:
    out = tmp_path / "run"

    result = fedboard("simulate", *tiny, "--no-baselines", "--no-report", *as_json, "--out", out)

    assert result.exit_code == 0, result.stderr
    assert not (out / "report.html").exists()
    assert "report.html" not in result.stdout
    if as_json:
        assert json.loads(result.stdout)["report"] is None
    else:
        assert result.stdout.splitlines()[-1] == f"Board   {out / 'boards' / 'board-0004.board'}"


@pytest.mark.usefixtures("without_pictures")
def test_the_same_run_with_baselines_says_what_they_reach(fedboard: Command, finished: Path) -> None:
    result = fedboard("simulate", "--out", finished, "--resume")

    assert result.exit_code == 0
    assert re.search(r"Guarantee: mu [\d.]+, \(5, 1e-05\)-differential privacy for each user", result.stdout)
    assert "a simulation. Real users need --noise secure" in result.stdout
    for name in reference_names(Feedback.EXPLICIT):
        assert f"\n{name} " in result.stdout


def test_a_model_without_privacy_says_so_and_keeps_no_ledger(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    out = tmp_path / "als"

    result = fedboard("simulate", *tiny, "--algorithm", "als", "--out", out)

    assert result.exit_code == 0
    assert "No privacy: als was fitted to the raw ratings" in result.stdout
    assert json.loads((out / "metrics.jsonl").read_text())["label"] == "no privacy"
    assert not (out / "ledger.sqlite").exists()
    again = fedboard("simulate", "--out", out, "--resume", "--json")
    assert json.loads(again.stdout)["guarantee"] is None


@pytest.mark.slow
@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("algorithm", ["adadpals", "popularity"])
def test_implicit_feedback_is_judged_by_lists(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path, algorithm: str
) -> None:
    flags = ("--feedback", "implicit", "--algorithm", algorithm, "--no-baselines", "--json")

    result = fedboard("simulate", *tiny[:-4], *flags, "--out", tmp_path / "run")

    assert result.exit_code == 0, result.stderr
    assert 0 < json.loads(result.stdout)["metrics"]["recall@20"] <= 1


@pytest.mark.usefixtures("without_pictures")
def test_flags_win_over_the_file_and_assignments_over_flags(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    config = tmp_path / "run.toml"
    config.write_text("seed = 1\n[privacy]\nepsilon = 2.0\ndelta = 1e-6\n[run]\nbaselines = false\n")

    result = fedboard(
        *("simulate", config, *tiny, "--epsilon", "3", "--seed", "2", "--set", "seed=3"),
        *("--set", "privacy.adjacency=replace", "--out", tmp_path / "run"),
    )

    stored = parse_config(json.loads((tmp_path / "run" / "config.json").read_text()))
    assert result.exit_code == 0, result.stderr
    assert (stored.seed, stored.privacy.epsilon, stored.privacy.delta) == (3, 3.0, 1e-6)
    assert stored.privacy.adjacency == "replace"
    assert stored.settings == {"rank": 3, "rounds": 2}
    assert not (tmp_path / "run" / "baselines.json").exists()


def test_names_of_data_sets_are_looked_up_in_the_data_folder(
    fedboard: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.csv").write_text("user,item,rating\n1,7,4\n1,8,2\n2,7,5\n")
    monkeypatch.setenv("FEDBOARD_DATA", str(tmp_path))
    monkeypatch.chdir("/")

    result = fedboard("data", "info", "tiny.csv", "--rating-range", "1,5", "--json")

    assert json.loads(result.stdout)["ratings"] == 3
    assert "3 from 1 to 5" in fedboard("data", "info", "tiny.csv", "--rating-range", "1,5").stdout


def test_recommendations_leave_out_what_was_rated(
    fedboard: Command, finished: Path, my_ratings: Path
) -> None:
    result = fedboard("recommend", my_ratings, finished, "-k", "5", "--json")

    found = json.loads(result.stdout)["recommendations"]
    assert [entry["rank"] for entry in found] == [1, 2, 3, 4, 5]
    assert {"1", "2", "3"}.isdisjoint(entry["item_id"] for entry in found)
    assert all(1 <= entry["score"] <= 5 and entry["title"] for entry in found)
    text = fedboard("recommend", my_ratings, finished / "boards" / "board-0004.board", "-k", "5").stdout
    assert found[0]["title"] in text
    assert "your ratings were sent nowhere" in text


def test_an_item_that_is_not_on_the_board_is_skipped_and_counted(
    fedboard: Command, finished: Path, my_ratings: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more.csv"
    more.write_text(my_ratings.read_text() + "nosuch,3\n")

    known, found = (fedboard("recommend", file, finished, "--json") for file in (my_ratings, more))
    told = fedboard("recommend", more, finished).stdout

    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["recommendations"] == json.loads(known.stdout)["recommendations"]
    assert [json.loads(one.stdout)["ratings_left_out"] for one in (known, found)] == [0, 1]
    assert "(1 more are not on it)" in told


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("{run}", "{mine}"), "ratings come first, then the board: fedboard recommend {mine} {run}"),
        (("{mine}", "https://boards.example/m"), "fedboard board fetch https://boards.example/m"),
        (("{mine}", "{mirror}"), "fedboard board fetch {mirror}"),
        (("{mine}", "nowhere"), "nowhere: no board can be read there"),
    ],
)
def test_what_is_no_board_for_recommend_says_what_to_type(
    fedboard: Command,
    finished: Path,
    my_ratings: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    sentence: str,
) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "latest.json").write_text("{}")
    names = {"run": finished, "mine": my_ratings, "mirror": tmp_path / "mirror"}

    result = fedboard("recommend", *(one.format_map(names) for one in arguments))

    assert result.exit_code == 2
    assert sentence.format_map(names) in result.stderr


def test_neighbours_are_listed_by_title(fedboard: Command, finished: Path) -> None:
    result = fedboard("explain", "--neighbours", "7", finished, "-k", "3", "--json")

    record = json.loads(result.stdout)
    assert record["item_id"] == "7"
    assert len(record["neighbours"]) == 3
    told = fedboard("explain", "--neighbours", record["title"], finished, "-k", "3").stdout
    assert told.startswith("NOT PRIVATE: ")
    assert told.count("\n") == 8


def test_users_are_cut_for_gateways_and_no_cohort_is_written_over(fedboard: Command, tmp_path: Path) -> None:
    (tmp_path / "tiny.csv").write_text("user,item,rating\na,x,5\na,y,1\nb,x,3\nc,y,4\n", encoding="utf-8")
    cut = ("data", "shard", tmp_path / "tiny.csv", "--as", "cohort", "--out", tmp_path / "b")
    cut += ("--rating-range", "1,5", "--users")

    refused, result = fedboard(*cut, "2:1"), fedboard(*cut, "1:3")
    before = {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}
    again = fedboard(*cut, "0:1")

    assert (again.exit_code, "there is a cohort already" in again.stderr) == (2, True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()} == before
    assert CohortFile.open(tmp_path / "b").n_users == 2
    assert "2 users with 2 ratings" in result.stdout
    assert refused.exit_code == 2
    assert "FIRST:LAST" in refused.stderr


@pytest.mark.parametrize("path", [path for path, _ in walked(commands)], ids=" ".join)
def test_help_fits_a_screen_and_help_all_has_every_option(path: tuple[str, ...]) -> None:
    command = dict(walked(commands))[path]
    shown = CliRunner().invoke(commands, [*path, "--help"], terminal_width=80).stdout.splitlines()
    everything = CliRunner().invoke(commands, [*path, "--help-all"]).stdout

    assert len(shown) <= (24 if path else 40)
    flags = [one.opts[0] for one in command.params if isinstance(one, click.Option)]
    assert [flag for flag in flags if flag not in everything] == []
    assert isinstance(command, click.Group) or any("fedboard" in line for line in shown[-2:-1])
