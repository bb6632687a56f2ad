"""What must hold after a run of ``chaos.py``, from the files that are left: boards, ledgers, logs of the parts."""

import hashlib
import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fedboard.client.boards.mirror_check import check_source
from fedboard.client.boards.sources import open_source
from fedboard.client.participation.config import load_device
from fedboard.client.participation.opening import open_ledger
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.certificate import Certificate
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.fleet.register import Register
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.fleet.state_folder import KeysFolder, StateFolder
from fedboard.server.publishing.mirror_files import Mirror

KINDS = ("double_releases", "lost_boards", "underbooked_ledgers", "invalid_final_boards")
SURE = 1 - 1e-9  # recomputed numbers agree to rounding


@dataclass
class Reader:
    """Somebody who looks at the boards all the time and remembers each that was ever there."""

    folder: Path
    seen: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """File name to the SHA-256 of each content, in the order of their appearance."""

    def look(self) -> None:
        for path in self.folder.glob("board-*.board"):
            try:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
            except FileNotFoundError:
                continue
            if digest not in self.seen[path.name]:
                self.seen[path.name].append(digest)


@dataclass
class Left:
    """All that a run has left behind."""

    folder: Path
    settings: FleetSettings
    notes: Path
    """Log of server and devices, see ``part.py``."""
    reader: Reader

    def __post_init__(self) -> None:
        """Read it; a ledger whose chain is broken cannot be opened."""
        self.run = StateFolder.of(self.settings).run
        self.boards = [Board.load(path) for path in sorted((self.run / "boards").glob("board-*.board"))]
        lines = self.notes.read_text().splitlines() if self.notes.exists() else []
        self.log: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self.private = not self.settings.simulated
        with Ledger.open(self.run / "ledger.sqlite", read_only=True) as ledger:
            self.events, self.identity = ledger.events(), ledger.id
            self.spent, self.budget = ledger.spent().epsilon, ledger.budget.epsilon
            self.claimed = ledger.claim().epsilon
            self.at_head = {
                b.version: ledger.events_at(_certificate(b).ledger_head or "") for b in self.boards
            }

    def noted(self, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.log if line["kind"] == kind]

    @property
    def names(self) -> dict[str, str]:
        """Public key to name of every device that ever was a member."""
        with Register(StateFolder.of(self.settings).members) as register:
            return {member.key: member.name for member in register.members()}

    @property
    def digests(self) -> set[str]:
        """Of all boards."""
        return {board.digest for board in self.boards}

    @property
    def lost_rounds(self) -> int:
        """Boards with the content of the one before."""
        return sum(_same_content(*pair) for pair in pairwise(self.boards))

    @property
    def lost_unbooked(self) -> int:
        """Those of them in which nothing was booked: what a server that ends may never cost under ``trusted``."""
        booked = _releases_by_round(self)
        lost = [before.version for before, after in pairwise(self.boards) if _same_content(before, after)]
        return sum(not booked[version] for version in lost)


def problems(left: Left) -> dict[str, list[str]]:
    """Everything that must not be, by kind."""
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    found["double_releases"] += double_releases(left)
    found["lost_boards"] += lost_boards(left)
    found["underbooked_ledgers"] += [*underbooked(left), *underbooked_devices(left)]
    found["invalid_final_boards"] += [*invalid_boards(left), *invalid_mirror(left)]
    return found


def double_releases(left: Left) -> Iterator[str]:
    """Private noise of one release drawn twice; one release booked twice; two boards of one version."""
    for name, times in Counter(str(event["name"]) for event in left.events).items():
        if times > 1:
            yield f"{name} is booked {times} times"
    drawn = defaultdict(list)
    for line in left.noted("draw"):
        drawn[line["release"]].append((line["row"], line["key"]))
    for name, draws in drawn.items():
        if len({key for _, key in draws}) > 1:
            yield f"noise of {name} was drawn twice, and differently"
        if left.private and max(Counter(row for row, _ in draws).values()) > 1:
            yield f"noise of {name} was drawn twice"
    for name, contents in left.reader.seen.items():
        if len(contents) > 1:
            yield f"{name} was published with {len(contents)} contents"
    told = defaultdict(set)
    for board in left.boards:
        told[board.version].add(board.digest)
    for answer in answered_boards(left):
        told[answer["round"]].add(answer["board"])
    for version, digests in told.items():
        if len(digests) > 1:
            yield f"devices and readers know {len(digests)} boards of version {version}"


def lost_boards(left: Left) -> Iterator[str]:
    """A board that was published once and is not there any more as it was."""
    for name, contents in left.reader.seen.items():
        path = left.run / "boards" / name
        if not path.exists():
            yield f"{name} is gone"
        elif hashlib.sha256(path.read_bytes()).hexdigest() != contents[0]:
            yield f"{name} is not what it was"
    there = {board.version for board in left.boards}
    for answer in answered_boards(left):
        if answer["round"] not in there:
            yield f"a device answered board {answer['round']}, which is gone"


def underbooked(left: Left) -> Iterator[str]:
    """The run's ledger holds less than what was drawn, or than what a board states."""
    booked = {str(event["name"]) for event in left.events}
    for name in sorted({line["release"] for line in left.noted("draw")} - booked):
        yield f"noise of {name} was drawn but {name} is not booked"
    if left.spent > left.budget / SURE:
        yield f"epsilon {left.spent} is booked, the budget is {left.budget}"
    for board in left.boards:
        certificate = _certificate(board)
        missing = [event["name"] for event in certificate.releases if event not in left.events]
        if missing:
            yield f"board {board.version} is made of {missing}, which are not booked"
        if left.at_head[board.version] != list(certificate.releases):
            yield f"board {board.version}: its releases are not what the ledger held"
        if certificate.claim.epsilon < left.claimed * SURE:
            yield f"board {board.version} claims less than the whole plan"


def underbooked_devices(left: Left) -> Iterator[str]:
    """An answer that the server counted and that its device has not booked, in full."""
    certified = [event for board in left.boards for event in _certificate(board).releases]
    events = {str(event["name"]): event for event in (*certified, *left.events)}
    names = left.names
    released = _releases_by_round(left)
    by_device = {name: list(_answers(left.folder / name / "device.toml")) for name in names.values()}
    for line in left.noted("taken"):
        name = names[line["node"]]
        own = [
            entry
            for entry in by_device[name]
            if (entry["run"], entry["round"], entry["board"]) == (line["run"], line["round"], line["board"])
        ]
        if not own:
            yield f"{name} has no record of its answer to round {line['round']}"
        for release in released.get(line["round"], ()):
            booked = [entry for entry in own if entry["release"] == release]
            if own and len(booked) != 1:
                yield f"{name} has booked {release} {len(booked)} times"
            stated = events.get(release, {}).get("noise_multiplier", 0.0)
            if any(entry["noise_multiplier"] > stated / SURE for entry in booked):
                yield f"{name} has booked {release} with more noise than it has"


def invalid_boards(left: Left) -> Iterator[str]:
    """The last board, and the chain that leads to it."""
    if not left.boards:
        yield "there is no board"
        return
    for board in left.boards:
        failed = [finding.check for finding in _certificate(board).verify() if not finding.passed]
        if failed:
            yield f"board {board.version}: its certificate fails {failed}"
        if _certificate(board).board_digest != board.digest:
            yield f"board {board.version}: its certificate is of another board"
        for name, array in board.arrays.items():
            if not np.isfinite(np.asarray(array, dtype=np.float64)).all():
                yield f"board {board.version}: {name} holds numbers that are none"
    for before, after in pairwise(left.boards):
        if after.previous_digest != before.digest or after.version != before.version + 1:
            yield f"board {after.version} does not continue board {before.version}"
    written = left.run / "certificate.json"
    if len(left.boards) > 1 and not written.exists():
        yield "certificate.json is not there"
    elif written.exists() and json.loads(written.read_text())["board_digest"] not in left.digests:
        yield "certificate.json is of no board that is there"


def invalid_mirror(left: Left) -> Iterator[str]:
    """What readers get: chain, signatures, cosignatures and files; and whether it is what there is."""
    keys, mirror = KeysFolder.of(left.settings), StateFolder.of(left.settings).mirror
    assert keys.roots is not None
    pinned = PinnedKey.read(keys.roots / "1.root.json", witnesses=left.settings.boards.cosigners)
    with closing(open_source(str(mirror))) as source:
        for found in check_source(source, pinned, max_bytes=1 << 30):
            if found.passed is False:
                yield f"the mirror: {found.check}: {found.detail}"
    newest = Mirror(mirror).published()
    if not newest or newest[-1].manifest.board_digest != left.boards[-1].digest:
        yield "the newest board is not published"


def answered_boards(left: Left) -> Iterator[dict[str, Any]]:
    """What all devices have on record of this run."""
    for name in left.names.values():
        for answer in _answers(left.folder / name / "device.toml"):
            if answer["run"].endswith(left.identity):
                yield answer


def _answers(config: Path) -> Iterator[dict[str, Any]]:
    device = load_device(config)
    if not device.ledger.exists():
        return
    with open_ledger(device, read_only=True) as ledger:
        for entry in ledger.given():
            if entry.about is not None:
                yield {
                    "run": entry.run,
                    "release": entry.release,
                    "round": entry.about.round,
                    "board": entry.about.board,
                    "noise_multiplier": entry.noise_multiplier,
                }


def _releases_by_round(left: Left) -> dict[int, list[str]]:
    """What each round released: what its board's certificate has more than the one before."""
    found = {}
    for before, after in pairwise(left.boards):
        known = {event["name"] for event in _certificate(before).releases}
        found[before.version] = [
            event["name"] for event in _certificate(after).releases if event["name"] not in known
        ]
    return found


def _certificate(board: Board) -> Certificate:
    return Certificate.from_dict(dict(board.certificate or {}))


def _same_content(old: Board, new: Board) -> bool:
    return old.arrays.keys() == new.arrays.keys() and all(
        np.array_equal(old.arrays[name], new.arrays[name]) for name in old.arrays
    )


def tampers() -> dict[str, tuple[Callable[[Left], None], str]]:
    """What may be done to the files of a finished run, and under which kind it must be found."""
    return {
        "ledger cut short": (lambda left: _cut(left.run / "ledger.sqlite"), "underbooked_ledgers"),
        "device forgot": (lambda left: _of_device(left, "b").unlink(), "underbooked_ledgers"),
        "device booked less": (lambda left: _cut(_of_device(left, "a")), "underbooked_ledgers"),
        "board gone": (lambda left: _last(left).unlink(), "lost_boards"),
        "board replaced": (_replace_board, "lost_boards"),
        "board of NaN": (_spoil_board, "invalid_final_boards"),
        "noise drawn once more": (_draw_again, "double_releases"),
    }


def _of_device(left: Left, name: str) -> Path:
    return left.folder / name / "state" / "ledger.sqlite"


def _cut(ledger: Path) -> None:
    with closing(sqlite3.connect(ledger, isolation_level=None)) as connection:
        connection.execute("DELETE FROM events WHERE seq = (SELECT MAX(seq) FROM events)")


def _last(left: Left) -> Path:
    return max((left.run / "boards").glob("board-*.board"))


def _replace_board(left: Left) -> None:
    board = left.boards[-1]
    replace(board, arrays=left.boards[-2].arrays, _digest=[]).save(_last(left))


def _spoil_board(left: Left) -> None:
    board: Board = left.boards[-1]
    arrays = {name: np.array(array) for name, array in board.arrays.items()}
    name = next(name for name, array in arrays.items() if array.dtype.kind == "f")
    arrays[name].flat[0] = np.nan
    replace(board, arrays=arrays, _digest=[]).save(_last(left))


def _draw_again(left: Left) -> None:
    line = next(line for line in left.notes.read_text().splitlines() if '"draw"' in line)
    with left.notes.open("a") as stream:
        stream.write(line + "\n")
