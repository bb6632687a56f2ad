"""The drill of copies: a state folder that was copied, gone on from and put back draws no noise a second time."""

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.fleet.state_folder import RoundLog
from tests.server.fleet.deployed import deployed
from tests.thorough import is_thorough

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("cp") is None, reason="needs cp")]

ROUNDS = 9
TASK = {"algorithm": "adadpals", "settings": {"rank": 2, "rounds": ROUNDS}}
SECURE = {"epsilon": 5.0, "seed": None}


def booked(state: Path) -> list[str]:
    with Ledger.open(state / "runs/trial/ledger.sqlite", read_only=True) as ledger:
        return [str(event["name"]) for event in ledger.events()]


def boards(state: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (state / "runs/trial/boards").glob("*.board")}


@pytest.mark.parametrize("protocol", ["trusted", pytest.param("secure-sum", marks=pytest.mark.thorough)])
def test_a_copy_that_was_put_back_stops_with_code_3_and_the_newest_state_goes_on(
    tmp_path: Path, protocol: str
) -> None:
    copy, newest = tmp_path / "copy", tmp_path / "newest"
    with deployed(tmp_path / "fleet", protocol={"name": protocol}, task=TASK, privacy=SECURE) as fleet:
        state = fleet.state.path
        fleet.wait(lambda: len(fleet.rounds) >= 1, "first round")
        subprocess.run(["cp", "-a", str(state), str(copy)], check=False)  # files come and go meanwhile
        before = len(RoundLog(copy / "runs/trial/rounds.jsonl").lines())
        fleet.wait(lambda: len(fleet.rounds) > before + 1, "rounds after the copy")
        fleet.end("server", signal.SIGKILL)
        state.rename(newest)
        shutil.copytree(copy, state)

        fleet.start("server")
        fleet.wait_for_end("server", 240)

        assert fleet.end("server", signal.SIGKILL) == 3, fleet.log("server")
        assert "this server is behind its devices" in fleet.log("server")
        assert booked(state) == booked(copy), "nothing was booked, and so nothing drawn"
        assert boards(state) == boards(copy), "no second board of any version"

        if not is_thorough():
            return  # that a killed server goes on is shown by test_killed.py
        shutil.rmtree(state)
        newest.rename(state)
        had = len(fleet.rounds)
        fleet.start("server")
        fleet.wait(lambda: len(fleet.rounds) > had + 1, "rounds of the newest state")
        lines = RoundLog(fleet.state.run / "rounds.jsonl").lines()
        assert [line["round"] for line in lines] == list(range(len(lines)))
        assert sum(line["lost"] for line in lines) <= 1, "the round that was under way when it was killed"
        names = booked(state)
        assert len(names) == len(set(names))
