"""An operator with two faces: one key for boards, one for the log, and two boards for one round."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedboard.common.board import Board
from fedboard.common.board_service.layout import LOG_PROOF
from fedboard.common.board_service.log.checkpoints import Checkpoint
from fedboard.common.board_service.log.history import History
from fedboard.common.board_service.log.notes import Note
from fedboard.common.board_service.log.proofs import LogProof
from fedboard.server.board_service.log.log import BoardLog
from fedboard.server.board_service.mirror import publish_into
from fedboard.server.board_service.mirror_files import Mirror
from fedboard.server.board_service.signing import SigningKey
from tests.common.board_service.boards import write_boards
from tests.server.board_service.log.network import Network


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
    entries = (*face.proof.history.entries, *other.proof.history.entries[-1:])
    history = object.__new__(History)  # past its own rules
    object.__setattr__(history, "entries", entries)
    object.__setattr__(history, "_first", {})
    return _cosigned(face.net, history)


def forged(net: Network, proof: LogProof) -> bytes:
    """The same history under a checkpoint that all witnesses cosigned."""
    return _cosigned(net, proof.history)


def _cosigned(net: Network, history: History) -> bytes:
    size = len(history.entries)
    text = Checkpoint(net.log.public.name, size, history.root(size)).text
    note = Note(text, (net.log.sign(text), *(key.cosign(text) for key in net.keys)))
    return LogProof.of(history, size - 1, note).to_bytes()
