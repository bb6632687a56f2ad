"""Simulations over Flower from the command line: killed or interrupted they go on to the engine's board."""

import json
import signal
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from fedboard.server.publication import BoardStore
from tests.cli.research.killing import killed

with warnings.catch_warnings():  # Flower's own imports use names that Click has deprecated
    warnings.simplefilter("ignore")
    import flwr.cli.build
    import flwr.clientapp
    import flwr.serverapp
    import flwr.supercore.control  # noqa: F401

Command = Callable[..., Result]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_pictures")]

IN_PROCESS = ("--runtime", "in-process", "--set", "run.nodes=3")


def digest(run: Path) -> str:
    return BoardStore(run / "boards").latest().digest


def test_a_run_over_a_grid_gives_the_engine_s_board(
    fedboard: Command, tiny: tuple[str, ...], finished: Path, tmp_path: Path
) -> None:
    result = fedboard("simulate", *tiny, *IN_PROCESS, "--no-baselines", "--json", "--out", tmp_path / "run")

    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["board_digest"] == digest(finished)
    assert fedboard("certificate", "verify", tmp_path / "run", "--simulation").exit_code == 0


@pytest.mark.parametrize(
    ("moment", "count"),
    [pytest.param("after:book", 2, marks=pytest.mark.thorough), ("after:publish", 3)],
)
def test_a_killed_run_over_a_grid_goes_on_to_the_same_board(
    fedboard: Command, tiny: tuple[str, ...], finished: Path, tmp_path: Path, moment: str, count: int
) -> None:
    out = tmp_path / "run"

    ended = killed("SIGKILL", moment, count, "simulate", *tiny, *IN_PROCESS, "--no-baselines", "--out", out)
    resumed = fedboard("simulate", "--out", out, "--resume", "--json")

    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert resumed.exit_code == 0, resumed.stderr
    assert json.loads(resumed.stdout)["board_digest"] == digest(finished)
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [record.get("round") for record in records] == [0, 1, 2, 3, None]


def test_ctrl_c_says_how_to_go_on(
    fedboard: Command, tiny: tuple[str, ...], finished: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"

    ended = killed(
        "SIGINT", "before:publish", 3, "simulate", *tiny, *IN_PROCESS, "--no-baselines", "--out", out
    )
    resumed = fedboard("simulate", "--out", out, "--resume", "--json", "--runtime", "in-process")

    assert ended.returncode == 130
    last = ended.stderr.splitlines()[-1]
    assert last == f"fedboard: interrupted; go on with: fedboard simulate --out {out} --resume"
    assert json.loads(resumed.stdout)["board_digest"] == digest(finished)


def test_more_nodes_than_users_is_one_sentence(
    fedboard: Command, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    for runtime in ("in-process", "flower"):
        result = fedboard(
            "simulate", *tiny, "--runtime", runtime, "--set", "run.nodes=301", "--out", tmp_path / "run"
        )

        assert result.exit_code == 2
        assert "nodes must be in 1..300 (the number of users), got 301" in result.stderr
        assert not (tmp_path / "run").exists()
