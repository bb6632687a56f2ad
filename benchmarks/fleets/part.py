"""Server and device as the benchmarks run them: the real ones, which also write down what they do, and which end
themselves with ``kill -9`` at a step that they are told.

usage: python benchmarks/fleets/part.py server|client ... (as ``fedboard server`` and ``fedboard client``)

FLEET_LOG names a folder. With FLEET_WHO, ``log.jsonl`` is written there (draws of noise, answers that were taken),
and ``die-WHO`` read: ``{"steps": 3, "at": "after: draw"}`` ends the process at its third step from now on that is
called so. Without it, a server writes how late its event loop was each time, and when it closed rounds, into
``delays.jsonl``, and hears strangers as often as they ask: thousands join from one address.
FLEET_BROKEN names one of two broken servers, which the checks of chaos must catch.
"""

import asyncio
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

FOLDER, WHO = Path(os.environ["FLEET_LOG"]), os.environ.get("FLEET_WHO", "")
_LOOK_SECONDS = 0.02
_LINES = 250


def watch(steps: Mapping[str, tuple[Any, str]], on_step: Callable[[str], None]) -> None:
    """Tell ``on_step`` before and after every step, of which ``steps`` has the owner and the name."""
    for name, (owner, attribute) in steps.items():
        setattr(owner, attribute, watched(name, getattr(owner, attribute), on_step))


def watched(name: str, original: Callable[..., Any], on_step: Callable[[str], None]) -> Callable[..., Any]:
    def replaced(*arguments: Any, **keywords: Any) -> Any:
        on_step(f"before: {name}")
        result = original(*arguments, **keywords)
        on_step(f"after: {name}")
        return result

    return replaced


def watch_draws(booked: Any, on_draw: Callable[[str, int, int, str], None]) -> None:
    """Tell of every draw before its values are handed over: release, first row, rows, digest of the key."""
    original = booked.publish

    def publish(
        self: Any, sums: Any, *, start_row: int = 0, noise_shares: int = 0, residue_bits: int = 0
    ) -> Any:
        values = original(
            self, sums, start_row=start_row, noise_shares=noise_shares, residue_bits=residue_bits
        )
        on_draw(self.release.name, start_row, int(sums.shape[0]), hashlib.sha256(self.stream.key).hexdigest())
        return values

    booked.publish = publish


def append_line(path: Path, line: str) -> None:
    """One line more; a single ``write``, so that a kill splits none."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, (line + "\n").encode())
    os.close(log)


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


def be_server() -> None:
    """Note draws and answers, and each step."""
    from fedboard.common.privacy.ledger.ledger import Ledger
    from fedboard.common.privacy.releases.gaussian import BookedRelease
    from fedboard.server.fleet.mailbox import Mailbox
    from fedboard.server.fleet.rounds.trusted_rounds import Admission
    from fedboard.server.fleet.state_folder import RoundLog
    from fedboard.server.publication import BoardStore

    watch_draws(BookedRelease, lambda *what: note("draw", **dict(zip(_DRAW, what, strict=True))))
    _note_taken(Admission)
    watch(
        {
            "ask": (Mailbox, "ask"),
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
    from fleets.broken_servers import booked_late, drawn_again

    def untold() -> None:
        """Devices that were told of a booked round would give nothing to it again."""
        from fedboard.server.fleet.rounds.over_nodes import OverNodes

        OverNodes.confirm = OverNodes.require_newest = lambda *_: None  # type: ignore[method-assign]
        drawn_again()

    broken = {"books late": lambda: booked_late(lambda: on_step("late booking")), "draws again": untold}
    broken.get(os.environ.get("FLEET_BROKEN", ""), lambda: None)()


_DRAW = ("release", "row", "rows", "key")


def _note_taken(owner: Any) -> None:
    original = owner.take

    def take(self: Any, node: str, content: bytes, *, max_users: int) -> Any:
        answer = original(self, node, content, max_users=max_users)
        question = self.question
        note("taken", node=node, run=question.run, round=question.round, board=question.board.digest)
        return answer

    owner.take = take


def be_client() -> None:
    """Each step of a device."""
    from fedboard.client.participation.connection import ServerConnection
    from fedboard.client.participation.ledger import DeviceLedger
    from fedboard.client.participation.records import KeptAnswers

    watch(
        {
            "receive": (ServerConnection, "receive"),
            "keep an answer": (KeptAnswers, "keep"),
            "book": (DeviceLedger, "admit"),
            "send": (ServerConnection, "send"),
            "put a file in place": (os, "replace"),
            "sync a file": (os, "fsync"),
        },
        on_step,
    )


def be_measured() -> None:
    """How late the event loop is, and when rounds are closed: their answers are here, their boards are not."""
    from fedboard.server.fleet.enrolment import Enrolment
    from fedboard.server.fleet.rounds.asking import Asking
    from fedboard.server.fleet.server import FleetServer
    from fedboard.server.fleet.state_folder import RoundLog

    Enrolment.hears = lambda *_: True  # type: ignore[method-assign]
    watch({"asking": (Asking, "run"), "logged": (RoundLog, "append")}, _note_time)
    serve = FleetServer._serve

    async def measured(self: Any, until_trained: bool) -> None:
        looking = asyncio.ensure_future(_look_at_loop())
        try:
            await serve(self, until_trained)
        finally:
            looking.cancel()

    FleetServer._serve = measured  # type: ignore[method-assign]


def _note_time(step: str) -> None:
    append_line(FOLDER / "delays.jsonl", json.dumps({"at": time.monotonic(), "step": step}))


async def _look_at_loop() -> None:
    late: list[tuple[float, float]] = []
    while True:
        began = time.monotonic()
        await asyncio.sleep(_LOOK_SECONDS)
        now = time.monotonic()
        late.append((now, now - began - _LOOK_SECONDS))
        if len(late) >= _LINES:
            append_line(FOLDER / "delays.jsonl", json.dumps({"late": late}))
            late = []


if __name__ == "__main__":
    {"server": be_server if WHO else be_measured, "client": be_client}[sys.argv[1]]()
    from fedboard.cli.main import main

    main()
