"""Proofs that a board was logged (c2sp.org/tlog-proof), with all that the log had said by then.

What the specification calls *extra* is the history: the text of all entries. It is not trusted as it comes; its
root has to be the one that was cosigned.
"""

from dataclasses import dataclass

from fedboard.common.boards.log.checkpoints import Checkpoint, hashes_of, size_of
from fedboard.common.boards.log.history import History
from fedboard.common.boards.log.merkle import inclusion_proof, is_included
from fedboard.common.boards.log.notes import Note, NoteError, bytes_of, plain_text, text_of

MAX_PROOF_BYTES = 8 << 20
"""Some 15 000 boards."""
_FIRST = "c2sp.org/tlog-proof@v1"
_EXTRA, _INDEX = "extra ", "index "


@dataclass(frozen=True, slots=True)
class LogProof:
    """An entry's place in a log, what the log had said by then, and a checkpoint. Nothing of it is verified."""

    history: History
    index: int
    hashes: tuple[bytes, ...]
    note: Note
    """The checkpoint, with the signatures of its log and its witnesses."""

    @property
    def checkpoint(self) -> Checkpoint:
        """What was signed.

        Raises:
            NoteError: the note is of something else.
        """
        return Checkpoint.parse(self.note.text)

    def to_bytes(self) -> bytes:
        """The proof as a file."""
        lines = [_FIRST, _EXTRA + text_of(self.history.text.encode()), f"{_INDEX}{self.index}"]
        lines += [text_of(one) for one in self.hashes]
        return "".join(f"{line}\n" for line in (*lines, "")).encode() + self.note.to_bytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> "LogProof":
        """Read a proof.

        Raises:
            NoteError: it is none, carries no history, or is longer than anybody takes.
            HistoryError: its history breaks a rule.
        """
        if len(content) > MAX_PROOF_BYTES:
            raise NoteError("a proof of too many bytes")
        head, between, note = plain_text(content).partition("\n\n")
        first, *rest = head.split("\n")
        if not between or first != _FIRST or len(rest) < 2:
            raise NoteError("not a proof of a log")
        extra, index, *hashes = rest
        if not extra.startswith(_EXTRA) or not index.startswith(_INDEX):
            raise NoteError("a proof without history or index")
        history = History.parse(plain_text(bytes_of(extra.removeprefix(_EXTRA))))
        place = size_of(index.removeprefix(_INDEX))
        return cls(history, place, tuple(hashes_of(hashes)), Note.from_bytes(note.encode()))

    @classmethod
    def of(cls, history: History, index: int, note: Note) -> "LogProof":
        """The proof of an entry, with a checkpoint of all of the history."""
        return cls(history, index, tuple(inclusion_proof(history.leaves, index)), note)

    def require_sound(self) -> None:
        """Hold history, entry and checkpoint against each other; who signed is not looked at.

        Raises:
            NoteError: the checkpoint is not that of this history, or the entry is not in it.
        """
        stated = self.checkpoint
        if len(self.history.entries) != stated.size or self.history.root(stated.size) != stated.root:
            raise NoteError("a history that is not the one of its checkpoint")
        if not 0 <= self.index < stated.size:
            raise NoteError("an index beyond the log")
        leaf = self.history.entries[self.index].leaf
        if not is_included(leaf, self.index, stated.size, self.hashes, stated.root):
            raise NoteError("an entry that is not in the log")
