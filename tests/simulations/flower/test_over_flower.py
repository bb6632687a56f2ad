"""Flower's simulation on Ray: the engine's boards once more, failures as they are, nothing left."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.errors import TooFewAnswersError
from fedboard.server.fleet.state_folder import RoundLog
from fedboard.simulations.flower import cohorts
from fedboard.simulations.simulate import simulate
from tests.simulations.flower.small_runs import a_config, digests

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(  # Flower's and Ray's own
        "ignore::ResourceWarning",
        "ignore::DeprecationWarning",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ),
]

_PATIENCE_SECONDS = 20.0
write_cohorts = cohorts.write_cohorts


def processes_of(mark: str) -> dict[int, str]:
    """The processes, but this one, whose command or environment holds this text."""
    found: dict[int, str] = {}
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or int(place.name) == os.getpid():
            continue
        try:
            told = (place / "cmdline").read_bytes() + b"\n" + (place / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in told:
            found[int(place.name)] = told.decode(errors="replace").split("\n")[0].replace("\0", " ")
    return found


def assert_nothing_runs(mark: str) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while (left := processes_of(mark)) and time.monotonic() < until:
        time.sleep(0.2)
    assert left == {}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all temporary files go, but Ray's."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")  # names of sockets are short
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return place


def write_one_damaged(folder: Path, *rest: Any) -> None:
    write_cohorts(folder, *rest)
    (folder / "cohort-000001" / "ratings.npy").write_bytes(b"?")


def test_flower_s_simulation_gives_the_engine_s_boards_and_leaves_nothing_behind(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure, too."""
    settings, out = {"rounds": 1}, tmp_path / "flower"
    run = {"protocol": "secure-sum", "clients": 3}  # sessions go on from one actor to the next
    config = a_config(settings=settings, runtime="flower", **run)
    with monkeypatch.context() as patched:
        patched.setattr(cohorts, "write_cohorts", write_one_damaged)
        with pytest.raises(TooFewAnswersError):
            simulate(config, out)

    simulate(config, out, resume=True)

    simulate(a_config(settings=settings, **run), tmp_path / "engine")
    assert digests(out) == digests(tmp_path / "engine")
    assert len(digests(out)) == 3
    steps = [line["steps"] for line in RoundLog(out / "rounds.jsonl").lines()]
    assert [len(of_round) for of_round in steps] == [4, 4]
    assert_nothing_runs(str(temporary))
    assert list(temporary.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_simulation_that_is_ended_leaves_no_process_behind(
    tmp_path: Path, temporary: Path, sent: signal.Signals
) -> None:
    words = ["simulate", "--runtime", "flower", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("fedboard")), *words],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    rounds, until = tmp_path / "run" / "rounds.jsonl", time.monotonic() + 120
    while not rounds.exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.2)

    process.send_signal(sent)
    process.wait(timeout=60)

    assert_nothing_runs(str(temporary))
