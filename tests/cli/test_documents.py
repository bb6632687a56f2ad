"""``--json``: one document on stdout and nothing else there, of every command that has it, also when it fails."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from fedboard.cli.documents import begin, document
from fedboard.cli.main import commands
from tests.walk import leaves

Command = Callable[..., Result]


WITH_JSON = {
    path: command
    for path, command in leaves(commands).items()
    if any("--json" in param.opts for param in command.params)
}
ELSEWHERE = {
    ("audit",): "cli/research/test_audit.py",
    ("query",): "cli/guarantee/test_ask.py",
    ("board", "fetch"): "cli/device/test_board_command.py",
    ("data", "shard"): "cli/research/test_shard_command.py",
    ("data", "split"): "cli/research/test_split_command.py",
    ("demo",): "cli/research/test_demo.py",
    ("fleet", "status"): "server/fleet/test_status.py",
    ("fleet", "invite"): "cli/fleet/test_members.py",
    ("fleet", "members"): "cli/fleet/test_members.py",
    ("keys", "show"): "cli/fleet/test_key_drill.py",
    ("ratings", "list"): "cli/device/test_device_commands.py",
    ("status",): "cli/device/test_device_commands.py",
    ("sweep",): "cli/research/test_sweep_command.py",
    ("tune",): "cli/research/test_tune_command.py",
}
"""What takes a fleet or many runs to succeed, and the file whose tests read its document."""


def only_document(result: Result) -> Any:
    """The one document that stdout holds."""
    assert result.stdout.endswith("\n")
    return json.loads(result.stdout)


@pytest.mark.parametrize("path", WITH_JSON, ids=" ".join)
@pytest.mark.parametrize("wrong", ["--no-such-option", "--jsn"])
def test_a_failure_is_a_document_beside_its_sentence(
    fedboard: Command, path: tuple[str, ...], wrong: str
) -> None:
    result = fedboard(*path, "--json", wrong)

    error = only_document(result)["error"]
    assert result.exit_code == error["exit_code"] == 2
    assert error["kind"] == "input"
    assert result.stderr == f"fedboard: {error['sentence']}\n"
    assert f"no such option '{wrong}'" in error["sentence"]


@pytest.mark.parametrize("path", WITH_JSON, ids=" ".join)
def test_without_it_a_failure_leaves_stdout_empty(fedboard: Command, path: tuple[str, ...]) -> None:
    assert fedboard(*path, "--no-such-option").stdout == ""


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mine") / "mine.csv"
    path.write_text("item,rating\n1,5\n2,1\n3,4\n", encoding="utf-8")
    return path


def succeeding(finished: Path, mine: Path, home: Path) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """What follows the words of a command, so that it succeeds."""
    return {
        ("account",): ("--noise-multiplier", "9", "--releases", "3"),
        ("ledger", "show"): (finished,),
        ("certificate", "show"): (finished,),
        ("certificate", "verify"): (finished, "--simulation"),
        ("data", "info"): ("synthetic",),
        ("explain",): ("7", mine, finished),
        ("protocols", "show"): ("secure-sum",),
        ("recommend",): (mine, finished),
        ("simulate",): ("--out", finished, "--resume", "--no-report"),
    }


def test_success_is_a_document_and_nothing_else(
    fedboard: Command, finished: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setattr("fedboard.simulations.data.describe", lambda ratings: {"nan": float("nan")})
    cases = succeeding(finished, mine, tmp_path)
    for path, arguments in cases.items():
        result = fedboard(*path, *arguments, "--json")

        assert result.exit_code == 0, (path, result.stderr)
        assert "error" not in only_document(result), path
    assert set(cases) | set(ELSEWHERE) == set(WITH_JSON)
    for file in set(ELSEWHERE.values()):
        assert '"--json"' in (Path(__file__).parents[1] / file).read_text(encoding="utf-8"), file


def test_what_is_no_number_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    document({"metrics": {"rmse": float("nan"), "most": [float("inf"), 1.5]}})

    assert json.loads(capsys.readouterr().out) == {"metrics": {"rmse": None, "most": [None, 1.5]}}


def test_words_after_two_dashes_are_no_options(capsys: pytest.CaptureFixture[str]) -> None:
    from fedboard.cli.documents import error_document

    begin(["recommend", "--", "--json"])
    error_document("wrong", 2)

    assert capsys.readouterr().out == ""
