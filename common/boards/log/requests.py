"""What a witness is asked (c2sp.org/tlog-witness): to cosign a checkpoint, given how its tree grew."""

from dataclasses import dataclass

from fedboard.common.boards.log.checkpoints import hashes_of, size_of
from fedboard.common.boards.log.notes import Note, NoteError, plain_text, text_of

MAX_REQUEST_BYTES = 1 << 17
"""A note, and a proof of 63 hashes."""
_OLD = "old "


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """The body of ``add-checkpoint``; nothing of it is verified."""

    old_size: int
    hashes: tuple[bytes, ...]
    """A consistency proof."""
    note: Note

    def to_bytes(self) -> bytes:
        """As it is sent."""
        lines = [f"{_OLD}{self.old_size}", *map(text_of, self.hashes), ""]
        return "".join(f"{line}\n" for line in lines).encode() + self.note.to_bytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> "AddCheckpoint":
        """Read a body.

        Raises:
            NoteError: it is none.
        """
        if len(content) > MAX_REQUEST_BYTES:
            raise NoteError("a request of too many bytes")
        head, between, note = plain_text(content).partition("\n\n")
        old, *hashes = head.split("\n")
        if not between or not old.startswith(_OLD):
            raise NoteError("not a request to cosign a checkpoint")
        return cls(size_of(old.removeprefix(_OLD)), tuple(hashes_of(hashes)), Note.from_bytes(note.encode()))
