"""Flower's simulation on Ray: the engine's boards once more, failures that say where to look, nothing left."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedboard.common.errors import FedboardError
from fedboard.server.fleet.running import RoundLog
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.flower import files, on_ray
from fedboard.simulations.flower.files import FleetFiles
from fedboard.simulations.simulate import simulate
from tests.simulations.flower.small_runs import a_config, digests

pytestmark = pytest.mark.slow

_PATIENCE_SECONDS = 20.0


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


class Failed:
    """What Flower says of a run whose processes failed, and what they printed."""

    def start(self, files: FleetFiles) -> str:
        return "7"

    def ended(self, run: str) -> str:
        assert run == "7"
        return "JSON is malformed"

    def printed(self, run: str) -> str:
        return "Traceback (most recent call last):\n  ...\n"


@contextmanager
def failed(home: Path) -> Iterator[Failed]:
    assert home.is_dir()
    yield Failed()


def assert_fails_and_says_where_to_look(config: SimulationConfig, out: Path) -> None:
    with pytest.raises(
        FedboardError, match=r"the Flower simulation failed .*what it printed is in (.*)"
    ) as error:
        simulate(config, out)

    log = Path(str(error.value).rpartition(" ")[2])
    assert log == out / "flower.log"
    assert "JSON is malformed" in str(error.value)
    assert "Traceback" in log.read_text()


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where all temporary files go."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return place


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Flower's own
def test_flower_s_simulation_gives_the_engine_s_boards_and_leaves_nothing_behind(
    tmp_path: Path, temporary: Path
) -> None:
    """After a failure, too."""
    settings, out = {"rounds": 1}, tmp_path / "flower"
    run = {"protocol": "secure-sum", "clients": 3}  # sessions go on from one actor to the next
    config = a_config(settings=settings, runtime="flower", **run)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(on_ray, "_superlink", failed)
        assert_fails_and_says_where_to_look(config, out)

    simulate(config, out, resume=True)

    simulate(a_config(settings=settings, **run), tmp_path / "engine")
    assert digests(out) == digests(tmp_path / "engine")
    assert len(digests(out)) == 3
    steps = [line["steps"] for line in RoundLog(out / "rounds.jsonl").lines()]
    assert [len(of_round) for of_round in steps] == [4, 4]
    assert_nothing_runs(str(temporary))
    assert list(temporary.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_run_that_fails_in_flower_s_processes_says_where_to_look_and_leaves_nothing_behind(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "write_job", lambda job, path: path.write_text("not a job"))
    config = a_config(settings={"rounds": 1}, runtime="flower", protocol="secure-sum", clients=3)

    assert_fails_and_says_where_to_look(config, tmp_path / "flower")

    assert_nothing_runs(str(temporary))
    assert list(temporary.iterdir()) == []


@pytest.mark.thorough
def test_a_simulation_that_is_killed_leaves_no_process_behind(tmp_path: Path, temporary: Path) -> None:
    words = ["simulate", "--runtime", "flower", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [str(Path(sys.executable).with_name("fedboard")), *words],
        env={**os.environ, "TMPDIR": str(temporary), "RAY_TMPDIR": "/tmp"},  # names of sockets are short
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    rounds, until = tmp_path / "run" / "rounds.jsonl", time.monotonic() + 120
    while not rounds.exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.2)

    process.kill()
    process.wait()

    assert_nothing_runs(str(temporary))


def test_ray_that_is_started_for_the_run_asks_for_a_token_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    own = [on_ray._environment(tmp_path) for _ in range(2)]
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")

    assert {one["RAY_AUTH_MODE"] for one in own} == {"token"}
    assert len({one["RAY_AUTH_TOKEN"] for one in own}) == 2
    assert "RAY_AUTH_TOKEN" not in on_ray._environment(tmp_path)
