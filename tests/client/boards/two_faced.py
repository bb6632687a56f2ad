"""An operator with two faces: one key for boards, one for the log, and two boards for one round."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.retrying import Patience
from fedboard.client.boards.sources import FolderSource
from fedboard.common.board import Board
from fedboard.common.boards.layout import LOG_PROOF
from fedboard.common.boards.log.checkpoints import Checkpoint
from fedboard.common.boards.log.entries import BoardEntry
from fedboard.common.boards.log.history import History
from fedboard.common.boards.log.notes import Note
from fedboard.common.boards.log.proofs import LogProof
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.server.publishing.log.log import BoardLog
from fedboard.server.publishing.mirror import publish_into
from fedboard.server.publishing.mirror_files import Mirror
from fedboard.server.publishing.signing import SigningKey
from tests.client.certified_boards import RUN, certified_boards, with_certificate
from tests.common.boards.boards import keys, write_boards
from tests.common.tasks.conftest import a_task
from tests.server.publishing.log.network import Network, network

TASK = a_task(epsilon=5.0)
HONEST, HOSTILE = (0, 1, 2), 3
LEAST = 3
AT_ONCE = Patience(attempts=1, first_seconds=0.0, poll_seconds=0.0)


@dataclass
class Face:
    """What some people are shown: boards, a log of them, a mirror."""

    folder: Path
    net: Network
    key: SigningKey
    run: str

    @property
    def mirror(self) -> Path:
        return self.folder / "mirror"

    def show(self, boards: Sequence[Board], *, asked: Sequence[int]) -> None:
        """Publish boards, and ask these witnesses to cosign; by the server's own code."""
        policy = self.net.policy_file(least=len(self.net.keys), only=asked, name=f"{self.folder.name}.policy")
        written = write_boards(self.folder / "boards", boards)
        with BoardLog.open(self.folder / "board-log", witnesses=policy) as log:
            publish_into(Mirror(self.mirror), written, key=self.key, run=self.run, log=log)

    def other(self, name: str) -> "Face":
        """The same up to here, for other people."""
        shutil.copytree(self.folder, self.folder.with_name(name))
        return Face(self.folder.with_name(name), self.net, self.key, self.run)

    @property
    def proof(self) -> LogProof:
        """What is shown of the log."""
        return LogProof.from_bytes((self.mirror / LOG_PROOF).read_bytes())

    def cosigned_by(self) -> frozenset[str]:
        """Whose word the last checkpoint has."""
        return self.net.policy(least=len(self.net.keys)).cosigners(self.proof.note)


def a_face(folder: Path, net: Network, key: SigningKey, *, run: str) -> Face:
    """The first one; the log's folder is moved into it."""
    folder.mkdir()
    shutil.copytree(net.origin, folder / "board-log")
    return Face(folder, net, key, run)


def merged(face: Face, other: Face) -> bytes:
    """A log that holds what both faces said, signed by its key and by every witness, who see no entries."""
    return forged(face.net, (*face.proof.history.entries, *other.proof.history.entries[-1:]))


def forged(
    net: Network,
    entries: Sequence[BoardEntry],
    *,
    origin: str | None = None,
    size: int | None = None,
    seconds: int | None = None,
) -> bytes:
    """Any entries under any checkpoint, signed by the log's key and by all witnesses."""
    history = object.__new__(History)  # past its own rules
    object.__setattr__(history, "entries", tuple(entries))
    object.__setattr__(history, "_first", {})
    stated = len(entries) if size is None else size
    text = Checkpoint(origin or net.log.public.name, stated, history.root(len(entries))).text
    note = Note(text, (net.log.sign(text), *(key.cosign(text, seconds=seconds) for key in net.keys)))
    return LogProof.of(history, len(entries) - 1, note).to_bytes()


class World:
    """One operator, four witnesses of whom the last lies, and two boards of version 2 that both hold."""

    def __init__(self, folder: Path, net: Network) -> None:
        self.folder, self.net = folder, net
        self.private, self.public = keys(folder / "keys")
        self.key = SigningKey.read(self.private)
        *self.common, self.a = certified_boards(folder, TASK)
        factors = {"item_factors": self.a.arrays["item_factors"] * 1.5}
        with Ledger.open(folder / f"{RUN}.sqlite", read_only=True) as ledger:
            self.b = with_certificate(self.common[-1].successor(**{**self.a.arrays, **factors}), ledger)
        self.before = a_face(folder / "before", net, self.key, run=RUN)
        self.before.show(self.common, asked=(*HONEST, HOSTILE))
        self.shown_a = self.before.other("a")
        self.shown_b = self.before.other("b")
        self.shown_a.show([self.a], asked=(0, 1, 3))
        self.shown_b.show([self.b], asked=(0, 1, 2, 3))

    def feed(self, face: Face, cache: Path, *, least: int = LEAST) -> BoardFeed:
        """A reader of this face."""
        policy = self.net.policy(least=least)
        source = FolderSource(face.mirror)
        return BoardFeed(source, self.key.public, BoardCache(cache), witnesses=policy, patience=AT_ONCE)


@contextmanager
def a_world(folder: Path) -> Iterator[World]:
    """Everything of it, while its witnesses listen."""
    with network(folder / "net", honest=len(HONEST), hostile=1) as net:
        yield World(folder, net)
