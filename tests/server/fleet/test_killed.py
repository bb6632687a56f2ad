"""``kill -9`` at any moment: nothing is released twice, nothing is not booked, no published board is lost."""

import signal
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedboard.cli.main import commands
from fedboard.common.certificate import Certificate
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.fleet.state_folder import RoundLog
from tests.server.fleet.deployed import NODES, deployed

pytestmark = pytest.mark.slow

_KILLS = """
import os, signal
from pathlib import Path
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.fleet.mailbox import Mailbox
from fedboard.server.publication import BoardStore

PLACE = Path({place!r})

def once(what):
    mark = PLACE / what
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)

def rounds_logged():
    log = PLACE / "state/runs/trial/rounds.jsonl"
    return len(log.read_text().splitlines()) if log.exists() else 0

def killed(of, name, what, *, after, in_round):
    real = getattr(of, name)
    def instead(*given, **named):
        if not after and rounds_logged() == in_round:
            once(what)
        found = real(*given, **named)
        if after and rounds_logged() == in_round:
            once(what)
        return found
    setattr(of, name, instead)

killed(Mailbox, "ask", "asked", after=True, in_round=1)
killed(Mailbox, "put", "answered", after=True, in_round=2)
killed(Ledger, "book_all", "unbooked", after=False, in_round=3)
killed(Ledger, "book_all", "booked", after=True, in_round=4)
killed(BoardStore, "publish", "published", after=True, in_round=5)
"""
STAGES = ("asked", "answered", "unbooked", "booked", "published")
ROUNDS = 5


def test_a_server_that_is_killed_at_each_stage_of_a_round_books_all_and_releases_nothing_twice(
    tmp_path: Path,
) -> None:
    with deployed(
        tmp_path,
        privacy={"epsilon": 5.0, "seed": None},
        task={"algorithm": "adadpals", "settings": {"rank": 2, "rounds": ROUNDS}},
        prelude=_KILLS.format(place=str(tmp_path)),
    ) as fleet:
        for _ in STAGES:
            fleet.wait_for_end("server")
            assert fleet.end("server", signal.SIGKILL) == -signal.SIGKILL
            fleet.start("server")
        fleet.wait(lambda: "the training is" in fleet.log("server"), "end of the training")
        assert all((tmp_path / stage).exists() for stage in STAGES)

        lines = RoundLog(fleet.state.run / "rounds.jsonl").lines()
        assert [line["round"] for line in lines] == list(range(ROUNDS + 1))
        lost = [line["round"] for line in lines if line["lost"]]
        assert lost == [4], "under trusted none before it was booked, and then the open one"
        assert "round 4: 0 answers, LOST: its budget is spent" in fleet.log("server")
        released = [name for line in lines for name in line["releases"]]
        assert len(released) == len(set(released))
        with Ledger.open(fleet.state.run / "ledger.sqlite", read_only=True) as ledger:
            booked = [str(event["name"]) for event in ledger.events()]
            assert ledger.spent().epsilon <= 5.0 * (1 + 1e-9)
        assert len(booked) == len(set(booked))
        assert set(released) < set(booked), "what the lost round was to release is paid for"

        boards = fleet.boards()
        assert [board.version for board in boards] == list(range(ROUNDS + 2))
        assert all(later.previous_digest == board.digest for board, later in pairwise(boards))
        assert Certificate.from_dict(dict(boards[-1].certificate or {})).holds

        words = ["board", "fetch", f"grpcs://{fleet.settings.network.address}", "--to", str(tmp_path / "got")]
        words += ["--key", str(fleet.folder / "keys/roots/1.root.json")]
        words += ["--authority", str(fleet.keys.authority)]

        def fetched() -> bool:
            CliRunner().invoke(commands, words)
            return any(boards[-1].digest in path.name for path in (tmp_path / "got").glob("*.board"))

        fleet.wait(fetched, "the newest board, signed over all that came before", 30)
        assert len(list((fleet.state.mirror / "manifests").iterdir())) >= len(boards)
        assert all(fleet.running(name) for name in NODES)
