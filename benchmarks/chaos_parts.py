"""The parts of a fleet as ``chaos.py`` runs them: the real ones, which also write down what they do, and which end
themselves with ``kill -9`` at a step that they are told.

usage: python benchmarks/chaos_parts.py server|client ... (as ``fedboard server`` and ``fedboard client``)

CHAOS_FOLDER: ``log.jsonl`` is written there, and ``die-server`` or ``die-client-NAME`` read: ``{"steps": 3,
"at": "after: draw"}`` ends the process at its third step from now on whose name begins so.
CHAOS_BROKEN names one of two broken servers, which the checks must catch.
"""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["CHAOS_FOLDER"])
WHO = os.environ["CHAOS_WHO"]
Steps = dict[str, tuple[Any, str]]


def note(kind: str, **fields: Any) -> None:
    """One line of the log; a single write, so that a kill splits none."""
    log = os.open(FOLDER / "log.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, (json.dumps({"kind": kind, "who": WHO, **fields}) + "\n").encode())
    os.close(log)


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


def watch(steps: Steps) -> None:
    """Tell ``on_step`` before and after every step."""
    for name, (owner, attribute) in steps.items():
        setattr(owner, attribute, _watched(name, getattr(owner, attribute)))


def _watched(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def replaced(*arguments: Any, **keywords: Any) -> Any:
        on_step(f"before: {name}")
        result = original(*arguments, **keywords)
        on_step(f"after: {name}")
        return result

    return replaced


def server_app() -> Any:
    """The ServerApp, watched; what the SuperLink starts imports this."""
    from fedboard.common.privacy.ledger.ledger import Ledger
    from fedboard.common.privacy.releases.gaussian import BookedRelease
    from fedboard.server.fleet import server_app as real
    from fedboard.server.fleet.rounds.admission import Admission
    from fedboard.server.fleet.rounds.round_log import RoundLog
    from fedboard.server.publication import BoardStore

    _note_draws(BookedRelease)
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
        }
    )
    broken = os.environ.get("CHAOS_BROKEN", "")
    if broken:
        from broken_servers import booked_late, drawn_again

        break_it = {
            "books late": lambda: booked_late(lambda: on_step("late booking")),
            "draws again": drawn_again,
        }
        break_it[broken]()
    return real.app


def _note_draws(owner: Any) -> None:
    original = owner.publish

    def publish(
        self: Any, sums: Any, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> Any:
        values = original(
            self, sums, start_row=start_row, noise_shares=noise_shares, residue_bits=residue_bits
        )
        key = hashlib.sha256(self.stream.key).hexdigest()
        note("draw", release=self.release.name, row=start_row, rows=int(sums.shape[0]), key=key)
        return values

    owner.publish = publish


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

    control._BUNDLE["fleet/server_app.py"] = b"import chaos_parts\n\napp = chaos_parts.server_app()\n"


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
        }
    )


if __name__ == "__main__":
    {"server": _be_server, "client": _be_client}[sys.argv[1]]()
    from fedboard.cli.main import main

    main()
