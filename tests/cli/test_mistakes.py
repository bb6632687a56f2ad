"""Mistakes at the keyboard: one sentence each, with the name that was meant."""

import json
from pathlib import Path

import numpy as np
import pytest

from fedboard.cli.text import colour_wanted
from fedboard.simulations.data import load_ratings
from tests.cli.conftest import Command

FEW = ("--set", "data.synthetic.n_users=50")
"""Some mistakes show when ratings are read."""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["simlate"], "no such command 'simlate'; did you mean 'simulate'? (see fedboard --help)"),
        (["board", "pge"], "no such command 'pge'; did you mean 'page'? (see fedboard board --help)"),
        (
            ["simulate", "--epsilo", "3"],
            "no such option '--epsilo'; did you mean '--epsilon'? (see fedboard simulate",
        ),
        (["recommend"], "missing argument 'RATINGS' (see fedboard recommend --help)"),
        (["simulate", "--rounds", "x"], "invalid value for '--rounds': 'x' is not a valid integer (see"),
        (
            ["simulate", "--runtime", "flwr"],
            "--runtime must be one of engine, ray, in-process, flower, got 'flwr'; did you mean 'flower'? (see",
        ),
        (
            ["simulate", "--set", "privacy.epsilno=3"],
            "privacy: unknown key 'epsilno'; known are ... did you mean 'epsilon'?",
        ),
        (
            ["simulate", "--set", "privacy.shares.cout=1", *FEW],
            "privacy.shares: unknown key 'cout'; known are ... did you mean 'counts'?",
        ),
        (["simulate", "--algorithm", "residul", *FEW], "got 'residul'; did you mean 'residual'?"),
        (["simulate", "--data", "sinthetic"], "a zip archive of ratings; did you mean 'synthetic'?"),
        (["tune", "--metric", "rsme"], "got 'rsme'; did you mean 'validation_rmse'?"),
        (["protocols", "show", "secur-sum"], "got 'secur-sum'; did you mean 'secure-sum'?"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_name_that_was_meant(
    fedboard: Command, arguments: list[str], sentence: str
) -> None:
    result = fedboard(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("fedboard: ")
    assert result.stderr.count("\n") == 1
    for part in sentence.split(" ... "):
        assert part in result.stderr


TABLE = [f"{user},{item},{1 + (user * item) % 5}" for user in range(40) for item in range(9)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with tables of ratings."""
    monkeypatch.chdir(tmp_path)
    headers = {"r": "user,item,rating", "ids": "user_id,item_id,rating"}
    for name, header in headers.items():
        Path(f"{name}.csv").write_text("\n".join((header, *TABLE)))
    Path("semi.csv").write_text("\n".join((headers["r"], *TABLE)).replace(",", ";"))
    Path("zero.csv").write_text("\n".join((f"{headers['r']},when", *(f"{line},0" for line in TABLE))))
    Path("x.py").write_text("ALGORITHM = 1\n")
    return tmp_path


FLAGS = ("--set", "run.kernels=numpy", "--no-report", "--no-baselines", "--out", "made")
R = ("simulate", "--data", "r.csv", *FLAGS)
STARS = ("--rating-range", "1,5")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((*R, "--rating-range", "1,1"), 2, "--rating-range must be LOW,HIGH with LOW below HIGH"),
        (("simulate", "r.csv"), 2, "ratings are given by --data r.csv"),
        (
            (*R, *STARS, "--algorithm", "./x.py"),
            2,
            "name the record in the file too, such as ./x.py:ALGORITHM",
        ),
        ((*R, "--set", "split.leave_last=true"), 2, "must be a whole number or null, got true or false"),
        (
            (*R, *STARS, "--algorithm", "langevin", "--rounds", "3"),
            2,
            "leave --rounds out, and take --set settings.steps=N",
        ),
        (
            (*R, *STARS, "--algorithm", "bias-private", "--rounds", "3"),
            2,
            "takes no 'rounds': leave --rounds out",
        ),
        ((*R, *STARS, "--noise", "secure"), 3, "--set data.catalogue=listed"),
        (
            ("simulate", "--noise", "secure", "--protocol", "secure-sum", "--set", "run.dropout=0.1"),
            3,
            "needs privacy.noise 'seeded'",
        ),
        (
            (*R, "--data", "zero.csv", *STARS, "--columns", "time=when", "--set", "split.leave_last=1"),
            2,
            "does not say when anything was rated",
        ),
    ],
)
def test_a_mistake_says_what_to_type(
    fedboard: Command, folder: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    result = fedboard(*arguments)

    assert sentence in result.stderr
    assert (result.exit_code, result.stderr.count("\n")) == (code, 1), result.output
    assert "did you mean" not in result.stderr
    assert not (folder / "made").exists()


def test_a_range_that_is_taken_for_granted_is_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    users, items, ratings = np.array([[int(cell) for cell in line.split(",")] for line in TABLE]).T
    np.savez("r.npz", user=users, item=items, rating=ratings, item_id=np.arange(9))

    load_ratings("r.npz", rating_range=(1, 5))
    assert caplog.messages == []
    load_ratings("r.npz")
    assert caplog.messages == ["r.npz: ratings are taken to be from 1 to 5; --rating-range says otherwise"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--delta", "0.5", "Delta 0.5 is large: "),
        ("--epsilon", "1e300", "Epsilon 1e+300 promises next to nothing: "),
    ],
)
def test_a_promise_that_is_next_to_none_is_said_to_be_so(
    fedboard: Command, folder: Path, flag: str, value: str, said: str
) -> None:
    ended = fedboard(*R, *STARS, "--algorithm", "item-mean-private", flag, value)
    usual = fedboard(*R[:-1], "usual", *STARS, "--algorithm", "item-mean-private")

    assert (ended.exit_code, usual.exit_code) == (0, 0), ended.output
    for place, expected in (("made", True), ("usual", False)):
        certificate = json.loads((folder / place / "certificate.json").read_text())
        assert any(said in one for one in certificate["assumptions"]) is expected
    assert said in ended.stdout
    assert said not in usual.stdout
    assert "--set data.catalogue=listed" in usual.stdout


def test_a_name_like_no_other_is_answered_with_all(fedboard: Command) -> None:
    told = fedboard("zzz").stderr

    assert "did you mean" not in told
    assert "there are demo, simulate, " in told


def test_a_data_set_of_the_data_folder_is_meant(
    fedboard: Command, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("elsewhere")
    (folder / "ml-1m.npz").touch()
    (elsewhere / "my-ratings.csv").touch()
    monkeypatch.setenv("FEDBOARD_DATA", str(folder))
    monkeypatch.chdir(elsewhere)

    assert "did you mean 'ml-1m'?" in fedboard("data", "info", "m-1m").stderr
    assert "did you mean 'my-ratings.csv'?" in fedboard("data", "info", "my-rating.csv").stderr
    assert (
        f"did you mean '{elsewhere}/my-ratings.csv'?"
        in fedboard("data", "info", f"{elsewhere}/my_rating.csv").stderr
    )


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, None),
        ({"TERM": "dumb"}, False),
        ({"CLICOLOR": "0"}, False),
        ({"NO_COLOR": ""}, None),
        ({"NO_COLOR": "0"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"CLICOLOR_FORCE": "0", "CLICOLOR": "0"}, False),
    ],
)
def test_colour_follows_the_conventions(environment: dict[str, str], wanted: bool | None) -> None:
    assert colour_wanted(environment) is wanted
