"""Mistakes at the keyboard: one sentence each, with the name that was meant."""

from collections.abc import Callable

import pytest
from click.testing import Result

from fedboard.cli.style.colours import colour_wanted

Command = Callable[..., Result]


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
        (["simulate", "--rank", "x"], "invalid value for '--rank': 'x' is not a valid integer (see"),
        (
            ["simulate", "--runtime", "flwr"],
            "--runtime must be one of engine, ray, in-process, flower, got 'flwr'; did you mean 'flower'? (see",
        ),
        (
            ["simulate", "--set", "privcy.epsilon=3"],
            "unknown key 'privcy'; known are ... did you mean 'privacy'?",
        ),
        (
            ["simulate", "--set", "privacy.epsilno=3"],
            "privacy: unknown key 'epsilno'; known are ... did you mean 'epsilon'?",
        ),
        (
            ["simulate", "--set", "run.kernels=blockd", *FEW],
            "known are auto, blocked, numpy, plain; did you mean 'blocked'?",
        ),
        (
            ["simulate", "--set", "settings.clip_nrom=3", *FEW],
            "unknown key 'clip_nrom'; known are ... did you mean 'clip_norm'?",
        ),
        (
            ["simulate", "--set", "privacy.shares.cout=1", *FEW],
            "privacy.shares: unknown key 'cout'; known are ... did you mean 'counts'?",
        ),
        (["simulate", "--algorithm", "residul", *FEW], "got 'residul'; did you mean 'residual'?"),
        (["simulate", "--protocol", "secur-sum", *FEW], "got 'secur-sum'; did you mean 'secure-sum'?"),
        (["simulate", "--data", "sinthetic"], "a zip archive of ratings; did you mean 'synthetic'?"),
        (["sweep", "--algorithms", "residul"], "got 'residul'; did you mean 'residual'?"),
        (["tune", "--metric", "rsme"], "got 'rsme'; did you mean 'validation_rmse'?"),
        (["audit", "--broken", "noise x 0.9"], "got 'noise x 0.9'; did you mean 'noise x 0.8'?"),
        (["reproduce", "jane"], "did you mean 'jain'?"),
        (["protocols", "show", "secur-sum"], "got 'secur-sum'; did you mean 'secure-sum'?"),
        (
            ["size", "--users", "9", "--items", "999", "--algorithm", "residul"],
            "got 'residul'; did you mean 'residual'?",
        ),
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
        ({"TERM": "xterm"}, None),
        ({"TERM": "dumb"}, False),
        ({"CLICOLOR": "0"}, False),
        ({"CLICOLOR": "1"}, None),
        ({"NO_COLOR": ""}, None),
        ({"NO_COLOR": "0"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ({"FORCE_COLOR": "0"}, None),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"CLICOLOR_FORCE": "0", "CLICOLOR": "0"}, False),
    ],
)
def test_colour_follows_the_conventions(environment: dict[str, str], wanted: bool | None) -> None:
    assert colour_wanted(environment) is wanted


@pytest.mark.parametrize(
    ("variable", "coloured"), [("FORCE_COLOR", True), ("NO_COLOR", False), ("LANG", False)]
)
def test_an_error_is_coloured_where_that_is_wanted(
    fedboard: Command, monkeypatch: pytest.MonkeyPatch, variable: str, coloured: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, "1")

    assert ("\x1b[" in fedboard("zzz").stderr) is coloured
