"""The parts of a fleet as ``chaos.py`` runs them: the real ones, which also write down what they do, and which end
themselves with ``kill -9`` at a step that they are told.

usage: python benchmarks/fleets/chaos/part.py server|client ... (as ``fedboard server`` and ``fedboard client``)

CHAOS_FOLDER: ``log.jsonl`` is written there, and ``die-server`` or ``die-client-NAME`` read: ``{"steps": 3,
"at": "after: draw"}`` ends the process at its third step from now on whose name begins so.
CHAOS_BROKEN names one of two broken servers, which the checks must catch.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from privacy.watching import append_line, watch, watch_draws

FOLDER = Path(os.environ["CHAOS_FOLDER"])
WHO = os.environ["CHAOS_WHO"]


def note(kind: str, **fields: Any) -> None:
    """One line of the log."""
    append_line(FOLDER / "log.jsonl", json.dumps({"kind": kind, "who": WHO, **fields}))


def on_step(name: str) -> None:
    """End here, if this is the step that was named."""
    order = FOLDER / f"die-{WHO}"
    try:
        told = json.loads(order.read_text())
    except (OSError, ValueError):
        return
    if not name.startswith(told["at"]):
        return
    if told["steps"] > 0:
        order.write_text(json.dumps({**told, "steps": told["steps"] - 1}))
        return
    order.unlink(missing_ok=True)
    note("died", at=name)
    os.kill(os.getpid(), signal.SIGKILL)


def server_app() -> Any:
    """The ServerApp, watched; what the SuperLink starts imports this."""
    from fedboard.common.privacy.ledger.ledger import Ledger
    from fedboard.common.privacy.releases.gaussian import BookedRelease
    from fedboard.server.fleet import server_app as real
    from fedboard.server.fleet.rounds.admission import Admission
    from fedboard.server.fleet.rounds.round_log import RoundLog
    from fedboard.server.publication import BoardStore

    watch_draws(BookedRelease, _note_draw)
    _note_taken(Admission)
    watch(
        {
            "take an answer": (Admission, "take"),
            "book": (Ledger, "book_all"),
            "draw": (BookedRelease, "publish"),
            "publish": (BoardStore, "publish"),
            "log a round": (RoundLog, "append"),
            "put a file in place": (os, "replace"),
            "sync a file": (os, "fsync"),
        },
        on_step,
    )
    broken = os.environ.get("CHAOS_BROKEN", "")
    if broken:
        from privacy.broken_servers import booked_late, drawn_again

        break_it = {
            "books late": lambda: booked_late(lambda: on_step("late booking")),
            "draws again": drawn_again,
        }
        break_it[broken]()
    return real.app


def _note_draw(release: str, row: int, rows: int, key: str) -> None:
    note("draw", release=release, row=row, rows=rows, key=key)


def _note_taken(owner: Any) -> None:
    original = owner.take

    def take(self: Any, node: str, content: bytes, *, max_users: int) -> Any:
        answer = original(self, node, content, max_users=max_users)
        question = self.question
        note("taken", node=node, run=question.run, round=question.round, board=question.board.digest)
        return answer

    owner.take = take


def _be_server() -> None:
    from fedboard.server.fleet.processes import control

    control._BUNDLE["fleet/server_app.py"] = b"from fleets.chaos import part\n\napp = part.server_app()\n"


def _be_client() -> None:
    from fedboard.client.answering.kept_answers import KeptAnswers
    from fedboard.client.device.ledger import DeviceLedger
    from fedboard.client.fleet.connection import Connection

    watch(
        {
            "receive": (Connection, "receive"),
            "keep an answer": (KeptAnswers, "keep"),
            "book": (DeviceLedger, "admit"),
            "send": (Connection, "send"),
            "put a file in place": (os, "replace"),
            "sync a file": (os, "fsync"),
        },
        on_step,
    )


if __name__ == "__main__":
    {"server": _be_server, "client": _be_client}[sys.argv[1]]()
    from fedboard.cli.main import main

    main()
