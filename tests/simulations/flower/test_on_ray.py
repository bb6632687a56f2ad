"""Flower's simulation on Ray: the engine's boards once more, failures that say where to look, nothing left."""

import os
import tempfile
import time
from pathlib import Path

import pytest

from fedboard.common.errors import FedboardError
from fedboard.server.fleet.plan.job import Job
from fedboard.server.fleet.rounds.round_log import RoundLog
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Flower's own
def test_flower_s_simulation_gives_the_engine_s_boards_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    settings, out = {"rounds": 1}, tmp_path / "flower"
    run = {"protocol": "secure-sum", "clients": 3}  # sessions go on from one actor to the next
    config = a_config(settings=settings, runtime="flower", **run)
    save = Job.save
    monkeypatch.setattr(Job, "save", lambda job, path: path.write_text("not a job"))

    with pytest.raises(
        FedboardError, match=r"the Flower simulation failed .*what it printed is in (.*)"
    ) as error:
        simulate(config, out)

    log = Path(str(error.value).rpartition(" ")[2])
    assert log == out / "flower.log"
    assert "job.json: JSON is malformed" in str(error.value)
    assert "Traceback" in log.read_text()
    monkeypatch.setattr(Job, "save", save)
    simulate(config, out, resume=True)

    simulate(a_config(settings=settings, **run), tmp_path / "engine")
    assert digests(out) == digests(tmp_path / "engine")
    assert len(digests(out)) == 3
    steps = [line["steps"] for line in RoundLog(out / "rounds.jsonl").lines()]
    assert [len(of_round) for of_round in steps] == [4, 4]
    assert_nothing_runs(str(temporary))
    assert list(temporary.iterdir()) == []
