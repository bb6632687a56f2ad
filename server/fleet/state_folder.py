"""Where a fleet's server finds its keys and keeps what must survive it: the log of rounds, and what is closed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.errors import PrivacyError
from fedboard.common.files import write_atomically
from fedboard.common.privacy.accounting.guarantee import Guarantee
from fedboard.server.fleet.settings import FleetSettings
from fedboard.server.operating.run_files import LOST, PLANNED, UNLOGGED, lines_of
from fedboard.server.training import FinishedRound

_MARK = "closed"


class KeysFolder:
    """The files under ``keys``, by fixed names. The server only reads there."""

    def __init__(self, path: Path) -> None:
        """Use a folder, which may be missing."""
        self.path = path
        self.authority = path / "authority.pem"
        """PEM file of the authority that signed the server's certificate; every device has a copy."""
        self.authority_key = path / "authority.key"
        """Its private key, which is needed for new certificates alone; best kept elsewhere."""
        self.certificate = path / "server.pem"
        """PEM file of the server's certificate."""
        self.key = path / "server.key"
        """Its private key, PEM."""
        self.questions = path / "questions.key"
        """Private key that signs what devices are asked."""
        self.roster = path / "roster.json"
        """List of the devices that an authority vouches for, where the protocol has one."""
        self.helper_authority = path / "helper.pem"
        """PEM file of the authority that vouches for the second server."""
        self.helper_identity = path / "helper.identity"
        """Identity of the second server's key, as ``fedboard helper`` prints it."""

    @property
    def boards(self) -> tuple[Path, ...]:
        """Private keys that sign boards: ``boards.key``, and ``boards-*.key`` where a root asks for several."""
        return (self.path / "boards.key", *sorted(self.path.glob("boards-*.key")))

    @property
    def roots(self) -> Path | None:
        """Folder of the roots that say which keys sign; None: readers have pinned ``boards.key``."""
        folder = self.path / "roots"
        return folder if folder.is_dir() else None

    @property
    def helper_token(self) -> Path | None:
        """Secret that the second server asks for; None: it asks for none."""
        place = self.path / "helper.token"
        return place if place.exists() else None

    @staticmethod
    def of(settings: FleetSettings) -> "KeysFolder":
        """The one that the settings name."""
        return KeysFolder(settings.keys)


class StateFolder:
    """The files under ``state``; nothing outside it is written."""

    def __init__(self, path: Path, name: str) -> None:
        """Use a folder, which may be missing.

        Args:
            path: of the folder.
            name: of the training run.
        """
        self.path, self.name = path, name
        self.lock = path / "server.lock"
        """Held by the one server that works on this folder."""
        self.first_board = path / "first.board"
        """Board 0: the task and its catalogue, no data."""
        self.features = path / "features.npy"
        """Public features of the items, if the task uses any."""
        self.run = path / "runs" / name
        """The training: ledger, boards, certificate, log of the rounds. The folder's name is the run's."""
        self.boards = self.run / "boards"
        """What it has published, a file each."""
        self.ledger = self.run / "ledger.sqlite"
        """What paid for that."""
        self.rounds = self.run / "rounds.jsonl"
        """The log of its rounds."""
        self.members = path / "members.sqlite"
        """The register of devices and invitations, see ``fedboard.server.fleet.register``."""
        self.door = path / "door.json"
        """What the port has seen of each device, JSON; for the operator."""
        self.questions = path / "questions"
        """Folder of the queries and of the account that they are paid from."""
        self.mirror = path / "mirror"
        """The signed boards, as readers get them."""

    def make(self) -> None:
        """Create the folders. They are their owner's only, even if they were there with other permissions."""
        for folder in (self.path, self.run.parent, self.run):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)

    @staticmethod
    def of(settings: FleetSettings) -> "StateFolder":
        """The one that the settings name."""
        return StateFolder(settings.state, settings.name)


def close(folder: Path, reason: str) -> None:
    """Write down that a training, or the account of the queries, is closed; durable on return.

    Args:
        folder: of the run, or of the queries; made if need be.
        reason: a sentence without a full stop.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(folder / _MARK, reason.encode())


def reopen(folder: Path) -> None:
    """Take back that it is closed: of who closed it until something was done that is done now."""
    (folder / _MARK).unlink(missing_ok=True)


def reason_of(folder: Path) -> str | None:
    """Why what is in this folder is closed; None where it is not."""
    try:
        return (folder / _MARK).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def require_open(run: Path) -> None:
    """Refuse to go on with a training that is closed.

    Raises:
        PrivacyError: it is.
    """
    if (reason := reason_of(run)) is not None:
        raise PrivacyError(
            f"{run}: this training is closed: {reason}. Its boards are published as before; a new training needs "
            "another state folder and budget"
        )


class RoundLog:
    """Lines in a file; a last line that a crash cut short is left out, and written over."""

    def __init__(self, path: Path) -> None:
        """Use a file that may exist."""
        self.path = path

    def append(self, finished: FinishedRound, told: Mapping[str, Any]) -> None:
        """Add the line of a round, with what else is told about it."""
        traffic = finished.traffic
        line: dict[str, Any] = {
            "round": finished.board.version - 1,
            "board_digest": finished.board.digest,
            "releases": list(finished.releases),
            LOST: finished.lost,
            "rejected_rows": finished.rejected_rows,
            "seconds": finished.seconds,
            "epsilon_spent": finished.spent.epsilon,
            "delta": finished.spent.delta,
            "bytes_up_per_user": None if traffic is None else traffic.up,
            "bytes_down_per_client": None if traffic is None else traffic.down,
            **told,
        }
        self._add(line)

    def catch_up(self, board: Board, before: Board, *, spent: Guarantee, planned: int) -> None:
        """Add the line of a round whose process ended after its board was published and before it was logged. Who
        answered is not known any more.

        Args:
            board: the last one that is published.
            before: the one before it.
            spent: by the run so far.
            planned: rounds of the whole run.
        """
        kept, number = self.lines(), board.version - 1
        if kept and kept[-1]["round"] >= number:
            return
        known = {release["name"] for release in _releases(before)}
        releases = [release["name"] for release in _releases(board) if release["name"] not in known]
        line = {
            "round": number,
            "board_digest": board.digest,
            "releases": releases,
            LOST: not releases,
            "seconds": 0.0,
            "epsilon_spent": spent.epsilon,
            "delta": spent.delta,
            PLANNED: planned,
            UNLOGGED: True,
        }
        self._add(line)

    def _add(self, line: Mapping[str, Any]) -> None:
        lines = [json.dumps(one, sort_keys=True, allow_nan=False) + "\n" for one in (*self.lines(), line)]
        write_atomically(self.path, "".join(lines).encode())

    def lines(self) -> list[dict[str, Any]]:
        """The lines so far."""
        return lines_of(self.path)


def _releases(board: Board) -> Sequence[Mapping[str, Any]]:
    return Certificate.from_dict(dict(board.certificate or {})).releases
