"""What must hold after a soak, from the files that are left and from what was seen on the way."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedboard.client.boards.mirror_check import check_source
from fedboard.client.boards.sources import FolderSource
from fedboard.client.guarantee.evidence import read_evidence
from fedboard.client.guarantee.ledger_checks import find_subject, verify_ledger
from fedboard.client.guarantee.verification import verify_evidence
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.log.checkpoints import Checkpoint
from fedboard.common.boards.log.entries import releases_digest
from fedboard.common.boards.log.history import History
from fedboard.common.boards.log.merkle import root_of
from fedboard.common.boards.log.notes import Note
from fedboard.common.boards.log.policy import WitnessPolicy
from fedboard.common.errors import FedboardError
from fedboard.common.privacy.ledger.ledger import Ledger
from fleets.chaos.checks import Left, problems
from fleets.soak.fleet import WITNESSES, WeekFleet
from fleets.soak.watch import Watch

LOST, UNDERBOOKED = "lost_boards", "underbooked_ledgers"
_SAID = re.compile(r"Traceback|unexpected \w+")
_CONTEXT = 400


def audited(fleet: WeekFleet, watch: Watch) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """Everything that must not be, by kind; and counts."""
    left = Left(fleet.folder, fleet.fleet.settings, fleet.notes, watch.boards)
    found = problems(left)
    history = _history(fleet)
    found[LOST] += [
        *unpublished(left, fleet),
        *unlogged(left, history),
        *unverified(fleet),
        *unwitnessed(fleet, history),
        *other_boards(left, watch),
        *watch.reader.problems,
        *watch.devices.problems,
    ]
    found[UNDERBOOKED] += [*unproven(left), *other_heads(left, history)]
    found["went_wrong"] = list(said_unexpected(fleet))
    counts = {
        "boards": len(left.boards),
        "rounds": fleet.made(),
        "lost_rounds": left.lost_rounds,
        "answers": len(left.noted("taken")),
        "releases_booked": len(left.events),
        "log_entries": len(history.entries),
        "boards_fetched_by_the_reader": len(watch.reader.seen),
        "refused_to_the_reader": dict(watch.reader.refused),
        "died_at": sorted({f"{line['who']} {line['at']}" for line in left.noted("died")}),
    }
    return found, counts


def _history(fleet: WeekFleet) -> History:
    path = fleet.folder / "board-log" / "entries"
    return History.parse(path.read_text(encoding="ascii")) if path.exists() else History()


def unpublished(left: Left, fleet: WeekFleet) -> Iterator[str]:
    """A board that a round made and that readers are not offered."""
    offered = {path.stem for path in (fleet.fleet.state.mirror / "manifests").glob("*.json")}
    versions = {int(number) for name in offered if (number := re.sub(r"\D", "", name))}
    for board in left.boards:
        if board.version not in versions:
            yield f"board {board.version} was made and is not offered to readers"
    made = {line["round"] + 1: line["board_digest"] for line in fleet.lines()}
    there = {board.version: board.digest for board in left.boards}
    for version, told in made.items():
        if there.get(version) != told:
            yield f"round {version - 1} made a board that is not there"


def unlogged(left: Left, history: History) -> Iterator[str]:
    """A board that is not in the log, or another one that is."""
    logged = {entry.version: entry.board for entry in history.entries}
    for board in left.boards:
        if logged.get(board.version) != board.digest:
            yield f"board {board.version} is not the one in the log"


def unverified(fleet: WeekFleet) -> Iterator[str]:
    """What a careful reader of the mirror finds: roots, signatures, chain, bytes, log, witnesses."""
    key, policy = PinnedKey.read(fleet.pinned), WitnessPolicy.read(fleet.policy)
    try:
        for found in check_source(
            FolderSource(fleet.fleet.state.mirror), key, max_bytes=1 << 30, witnesses=policy
        ):
            if found.passed is not True:
                yield f"{found.check}: {found.detail}"
    except FedboardError as error:
        yield f"the mirror is refused: {error}"


def unwitnessed(fleet: WeekFleet, history: History) -> Iterator[str]:
    """A witness that has cosigned what is no beginning of the log."""
    for name in WITNESSES:
        for path in (fleet.folder / name / "state").glob("*.checkpoint"):
            seen = Checkpoint.parse(Note.from_bytes(path.read_bytes()).text)
            if seen.size > len(history.leaves) or root_of(history.leaves[: seen.size]) != seen.root:
                yield f"{name} has cosigned a log of {seen.size} entries that is no beginning of this one"


def other_boards(left: Left, watch: Watch) -> Iterator[str]:
    """A board that a reader was given, verified, and that is not the one that is there."""
    there = {board.version: board.digest for board in left.boards}
    for version, told in watch.reader.seen.items():
        if there.get(version) != told:
            yield f"the reader was given a board {version} that is not there"
    if left.boards and watch.reader.newest != left.boards[-1].version:
        yield f"the newest board is {left.boards[-1].version}, the reader was given {watch.reader.newest}"


def unproven(left: Left) -> Iterator[str]:
    """What ``certificate verify`` and ``ledger verify`` find, recomputed from the evidence."""
    try:
        yield from (
            f"{found.check}: {found.detail}"
            for found in verify_evidence(read_evidence(left.run))
            if not found.passed
        )
        if verify_ledger(find_subject(left.run), ()).failed:
            yield "the ledger does not verify"
    except FedboardError as error:
        yield f"the evidence cannot be read: {error}"


def other_heads(left: Left, history: History) -> Iterator[str]:
    """What the log says of the ledger against the ledger."""
    with Ledger.open(left.run / "ledger.sqlite", read_only=True) as ledger:
        for entry in history.entries:
            events = [] if entry.ledger_head == "-" else ledger.events_at(entry.ledger_head)
            if events is None:
                yield f"the log's head of the ledger at board {entry.version} never was one"
            elif (len(events), releases_digest(events)) != (entry.ledger_rows, entry.releases):
                yield f"the log says of the ledger at board {entry.version} what it never held"


def said_unexpected(fleet: WeekFleet) -> Iterator[str]:
    """Tracebacks and unexpected errors of our own processes, by their last line."""
    logs = fleet.fleet.state.path / "logs"
    ours = [*sorted(fleet.folder.glob("*.log")), logs / "proxy.log", logs / "board.log"]
    for path in ours:
        text = path.read_text(errors="replace") if path.exists() else ""
        for found in _SAID.finditer(text):
            yield f"{path.name}: {text[found.start() : found.start() + _CONTEXT]!r}"


def drop_booking(run: Path) -> None:
    """Take the newest row out of the ledger."""
    with sqlite3.connect(run / "ledger.sqlite") as connection:
        connection.execute("DELETE FROM events WHERE seq = (SELECT MAX(seq) FROM events)")
    connection.close()
