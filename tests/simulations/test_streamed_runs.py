"""Runs over streams: the boards of runs in memory, and a killed process goes on within its round."""

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.common.board import Board
from fedboard.common.errors import InputError, SettingError
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import StreamedProblem
from fedboard.simulations.runs.calibrated import load_any
from fedboard.simulations.simulate import simulate

pytestmark = pytest.mark.slow

PEOPLE = {"n_users": 6000, "n_items": 40, "mean_ratings_per_user": 6.0}
RUN: dict[str, Any] = {
    "algorithm": "bias-private",
    "data": {"synthetic": PEOPLE},
    "run": {"baselines": False, "evaluate_rounds": False, "kernels": "numpy"},
}
STREAMED = {**RUN, "run": {**RUN["run"], "streamed": True, "block_ratings": 4000, "checkpoint_users": 1}}
KILLED = """
import os, signal, sys
from pathlib import Path
from fedboard.simulations.config import parse_config
from fedboard.simulations.simulate import simulate
from fedboard.simulations.data.stream import HeldStream

asked, read = 0, HeldStream.read

def killing(self, start, stop):
    global asked
    asked += start == 0
    if asked == 2 and start >= 4096:  # within the second round, when two of its three spans are done
        os.kill(os.getpid(), signal.SIGKILL)
    return read(self, start, stop)

HeldStream.read = killing
simulate(parse_config(eval(sys.argv[1])), Path(sys.argv[2]), report=False)
"""


def boards(run: Path) -> list[str]:
    return [Board.load(path).digest for path in sorted((run / "boards").iterdir())]


def booked(run: Path) -> list[Any]:
    with sqlite3.connect(f"file:{run / 'ledger.sqlite'}?mode=ro", uri=True) as ledger:
        tables = [name for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [sorted(map(str, ledger.execute(f"SELECT COUNT(*) FROM {name}"))) for name in sorted(tables)]


@pytest.fixture(scope="module")
def in_memory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(parse_config(RUN), tmp_path_factory.mktemp("memory") / "run", report=False).path


def test_a_killed_process_goes_on_within_its_round_to_the_same_boards(
    in_memory: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, repr(STREAMED), str(run)],
        check=False,
        capture_output=True,
        timeout=300,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    secret = run / "partial-sums.secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    assert b"SECRET" in secret.read_bytes()[:64]
    assert len(boards(run)) == 2  # the round that was killed has none
    elsewhere = Path(shutil.copytree(run, tmp_path / "elsewhere"))

    told: list[tuple[int, int]] = []
    simulate(parse_config(STREAMED), run, resume=True, report=False, listener=Listening(told))

    assert boards(run) == boards(in_memory)
    assert booked(run) == booked(in_memory)
    assert told[0] == (4096, 6000)  # two of three spans were not gone through again
    assert not secret.exists()
    held = {**STREAMED, "run": {**STREAMED["run"], "streamed": False}}
    simulate(parse_config(held), elsewhere, resume=True, report=False)
    assert boards(elsewhere) == boards(in_memory)
    assert not list(elsewhere.glob("partial-sums*")), "what was kept of a round goes, whoever ends it"


class Listening:
    """Keeps how far rounds were."""

    def __init__(self, told: list[tuple[int, int]]) -> None:
        self.told = told

    def planned(self, problem: object, rounds: object) -> None:
        assert isinstance(problem, StreamedProblem)

    def progress(self, phase: str, done: int, total: int) -> None:
        if phase == "users":
            self.told.append((done, total))

    def round_finished(self, line: object) -> None:
        pass


def test_the_command_line_streams_any_data_to_a_board_and_a_report(in_memory: Path, tmp_path: Path) -> None:
    settings = [f"data.synthetic.{name}={value}" for name, value in PEOPLE.items()]
    settings += ["run.evaluate_rounds=false", "run.kernels=numpy"]
    ended = CliRunner().invoke(
        commands,
        ["simulate", "--algorithm", "bias-private", "--no-baselines"]
        + [
            part
            for setting in ("run.streamed=true", "run.block_ratings=999", *settings)
            for part in ("--set", setting)
        ]
        + ["--out", str(tmp_path / "run")],
    )

    assert ended.exit_code == 0, ended.output
    assert "6,000 users, 40 items, streamed" in ended.output
    assert boards(tmp_path / "run") == boards(in_memory)
    assert (tmp_path / "run" / "report.html").is_file()
    assert not (tmp_path / "run" / "partial-sums.secret").exists()
    final = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    expected = json.loads((in_memory / "metrics.jsonl").read_text().splitlines()[-1])
    for name, value in expected["metrics"].items():
        assert final["metrics"][name] == pytest.approx(value, rel=1e-9)


def test_what_cannot_stream_is_refused_in_a_sentence() -> None:
    for run, said in (
        ({"runtime": "flower"}, "run.streamed needs run.runtime 'engine'"),
        ({"protocol": "secure-sum"}, "run.streamed needs run.protocol 'trusted'"),
        ({"block_ratings": 0}, "run.block_ratings must be a whole number"),
        ({"checkpoint_users": 0}, "run.checkpoint_users must be a whole number"),
    ):
        with pytest.raises((InputError, SettingError), match=said):
            parse_config({"run": {"streamed": True, **run}})
    with pytest.raises(InputError, match="streamed ratings are split by coins"):
        load_any(parse_config({**STREAMED, "split": {"leave_last": 1}}))


def test_secure_noise_keeps_no_partial_sums(tmp_path: Path) -> None:
    run = {**STREAMED, "privacy": {"noise": "secure"}}

    simulate(parse_config(run), tmp_path / "run", report=False, listener=Kept(tmp_path / "run"))


class Kept(Listening):
    """Sees that no sums lie in the run's directory at any time."""

    def __init__(self, run: Path) -> None:
        super().__init__([])
        self.run = run

    def progress(self, phase: str, done: int, total: int) -> None:
        assert not [path for path in self.run.iterdir() if "partial" in path.name]
