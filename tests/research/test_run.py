"""``python research/run.py``: the list, an experiment from end to end, and what is refused before any work."""

import json
from pathlib import Path

import pytest
from click.testing import Result

from fedboard.simulations.sections import DataConfig
from research.shared.experiment import Experiment, Outcome, Setting
from research.shared.ratings import data_of
from tests.research.conftest import Command


def test_without_a_figure_it_says_what_there_is(run: Command) -> None:
    everything, one = run(), run("jain")

    for result in (everything, one):
        assert result.exit_code == 0, result.output
        assert "Error of personal models against epsilon" in result.stdout
    for paper in ("krichene", "liu", "epasto", "jain", "population"):
        assert paper in everything.stdout
    assert "krichene" not in one.stdout
    assert "50,000 users" in one.stdout


@pytest.mark.slow
def test_numbers_go_to_a_file_and_to_stdout_and_nothing_is_overwritten(run: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"

    result = run("liu", "1", "--small", "--out", out, "--json")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == json.loads((out / "numbers.json").read_text())
    assert json.loads(result.stdout)["figure"] == "1"
    assert run("liu", "1", "--out", out).exit_code == 2


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Setting]:
    """What experiments on ratings are given, in place of running them."""
    heard: list[Setting] = []

    def begin(setting: Setting) -> Outcome:
        heard.append(setting)
        return Outcome(numbers={}, settings={}, comparison="", figures={})

    monkeypatch.setattr(Experiment, "outcome", lambda self, setting: begin(setting))
    return heard


@pytest.mark.parametrize("figure", ["krichene 1", "krichene 9", "liu 7"])
def test_an_experiment_is_given_ratings_as_simulate_takes_them(
    run: Command, asked: list[Setting], tmp_path: Path, figure: str
) -> None:
    table, titles = tmp_path / "plays.txt", tmp_path / "titles.csv"
    table.write_text("who,what,stars\n1,a,3\n2,b,4\n")
    titles.write_text("what,title\na,A\nb,B\n")
    how = ("--format", "csv", "--columns", "user=who,item=what,rating=stars", "--rating-range", "1,5")

    result = run(
        *(*figure.split(), "--data", table, *how, "--titles", titles, "--epsilon", "0.5,8"),
        *("--out", tmp_path / "out"),
    )

    assert result.exit_code == 0, result.output
    assert asked[0].epsilons == (0.5, 8.0)
    assert asked[0].data == DataConfig(
        source=str(table),
        format="csv",
        columns={"user": "who", "item": "what", "rating": "stars"},
        rating_range=(1.0, 5.0),
        titles=str(titles),
    )


def test_plays_are_for_figures_of_lists(run: Command, asked: list[Setting], tmp_path: Path) -> None:
    plays = tmp_path / "train_triplets.txt"
    plays.write_text(f"{'b' * 40}\tSOAKIMP12A8C130995\t1\n")

    def given(figure: str) -> Result:
        return run("krichene", figure, "--data", plays, "--out", tmp_path / figure)

    lists, both, stars = given("6"), given("8"), given("1")

    assert (lists.exit_code, both.exit_code, stars.exit_code) == (0, 0, 2)
    assert "says who used what, not how they liked it, and krichene 1 predicts ratings" in stars.stderr
    assert not (tmp_path / "1").exists()


def test_what_is_interrupted_goes_on_in_its_folder(
    run: Command, asked: list[Setting], tmp_path: Path
) -> None:
    begun = run("population", "curve", "--most-users", "3e4", "--out", tmp_path / "out")
    (tmp_path / "out" / "parts" / "finished.json").write_text("{}")
    again = run("population", "curve", "--resume", "--out", tmp_path / "out")

    assert (begun.exit_code, again.exit_code) == (0, 0), begun.output + again.output
    assert [setting.most_users for setting in asked] == [3e4, None]
    assert asked[1].scratch == asked[0].scratch
    assert (asked[1].scratch / "finished.json").exists()


def test_without_data_of_the_user_the_nearest_set_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = Setting(seeds=1, scratch=tmp_path, on_progress=lambda phase, done, total: None)
    monkeypatch.delenv("FEDBOARD_DATA", raising=False)
    assert data_of(own).source == "synthetic"
    (tmp_path / "ml-1m").mkdir()
    monkeypatch.setenv("FEDBOARD_DATA", str(tmp_path))
    assert data_of(own).source == str(tmp_path / "ml-1m")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "krichene 1 --most-users 1e6",
            "krichene 1 has no number of users to choose; leave out --most-users",
        ),
        ("population curve --most-users 5", "--most-users must be at least 10,000, got 5"),
        ("population curve --most-users nan", "--most-users must be at least 10,000, got nan"),
        ("krichene 1 --resume --out x", "krichene 1 keeps no parts to go on with"),
        ("population curve --resume", "--resume needs the --out of what was interrupted, got none"),
        ("population curve --resume --out nowhere", "what was interrupted, got nowhere"),
        ("population curve --data synthetic:user=5", "unknown key 'user'"),
    ],
)
def test_what_makes_no_sense_of_a_population_is_refused(
    run: Command, asked: list[Setting], given: str, said: str
) -> None:
    result = run(*given.split())

    assert result.exit_code == 2
    assert said in result.stderr
    assert not asked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nobody",), "there are krichene, liu, epasto, jain"),
        (("jain", "7"), "there are 2"),
        (("jain", "2", "--data", "."), "leave out --data"),
        (("krichene", "1", *2 * ("--data", "synthetic")), "krichene 1 takes one --data, got 2"),
        (("krichene", "7", "--data", "synthetic", "--data", "nowhere.csv"), "nowhere.csv does not exist"),
        (("krichene", "5", "--data", "synthetic"), "krichene 5 makes its own data"),
        (("krichene", "7", "--columns", "user=a"), "--columns: of which ratings? Name them with --data"),
        (("krichene", "7", "--data", "nowhere.csv"), "nowhere.csv does not exist"),
        (("krichene", "10", "--epsilon", "1,2"), "krichene 10 shows a single epsilon; give one, got 2"),
        (("liu", "2", "--epsilon", "1"), "liu 2 has no epsilon to choose"),
        (("jain", "2", "--epsilon", "1,0"), "--epsilon must be numbers > 0, got '1,0'"),
        (("jain", "2", "--epsilon", "1,inf"), "--epsilon must be numbers > 0, got '1,inf'"),
        (("epasto", "table-1", "--data", ".", "--format", "csv"), "reads no table of ratings"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_sentence(
    run: Command, arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    result = run(*arguments)

    assert result.exit_code == 2
    assert said in result.stderr
    assert not list(tmp_path.iterdir())
