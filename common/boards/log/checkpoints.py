"""Checkpoints (c2sp.org/tlog-checkpoint) and what witnesses say of them (c2sp.org/tlog-cosignature)."""

import re
import struct
from dataclasses import dataclass

from fedboard.common.boards.log.merkle import EMPTY_ROOT, HASH_BYTES
from fedboard.common.boards.log.notes import (
    Kind,
    Note,
    NoteError,
    Signature,
    VerifierKey,
    bytes_of,
    text_of,
)

MAX_PROOF_HASHES = 63
_MOST_LEAVES = 1 << 62
_NUMBER = re.compile("0|[1-9][0-9]{0,18}")
_TIME = struct.Struct(">Q")
_LAST_SECOND = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a log: how many leaves, and their root."""

    origin: str
    """Name of the log."""
    size: int
    root: bytes
    """32 bytes."""
    extensions: tuple[str, ...] = ()
    """Lines of which nobody but the log says anything."""

    @property
    def text(self) -> str:
        """What is signed."""
        lines = (self.origin, str(self.size), text_of(self.root), *self.extensions)
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def parse(cls, text: str) -> "Checkpoint":
        """Read the text of a note.

        Raises:
            NoteError: it is no checkpoint, or one of no leaves with another root than theirs.
        """
        origin, *lines = text.removesuffix("\n").split("\n")
        if not text.endswith("\n") or len(lines) < 2 or not all((origin, *lines)):
            raise NoteError("not a checkpoint")
        root = bytes_of(lines[1])
        if len(root) != HASH_BYTES:
            raise NoteError("a checkpoint whose root is no SHA-256")
        return cls(origin, size_of(lines[0]), root, tuple(lines[2:]))

    @property
    def is_sound(self) -> bool:
        """Whether no leaves have the root of no leaves."""
        return self.size > 0 or self.root == EMPTY_ROOT


def size_of(text: str) -> int:
    """A number of leaves in its one form.

    Raises:
        NoteError: it is none.
    """
    if not _NUMBER.fullmatch(text) or int(text) > _MOST_LEAVES:
        raise NoteError("not the size of a tree")
    return int(text)


def hashes_of(lines: list[str]) -> list[bytes]:
    """The hashes of a proof, one a line.

    Raises:
        NoteError: a line is none, or there are more than any tree needs.
    """
    found = [bytes_of(line) for line in lines]
    if len(found) > MAX_PROOF_HASHES or any(len(one) != HASH_BYTES for one in found):
        raise NoteError("not a proof")
    return found


def cosigned_message(text: str, seconds: int) -> bytes:
    """What a witness signs of a checkpoint at a time, POSIX seconds."""
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def timestamped(key: VerifierKey, seconds: int, signature: bytes) -> Signature:
    """A witness's line: the time, then its signature of ``cosigned_message``."""
    return Signature(key.name, key.id, _TIME.pack(seconds) + signature)


def cosigned_at(note: Note, key: VerifierKey) -> int | None:
    """When a witness cosigned a checkpoint, POSIX seconds; None where it did not.

    Raises:
        NoteError: a line says that it did, and its signature is not the witness's, or it names no time.
    """
    if key.kind is not Kind.COSIGNATURE:
        raise NoteError(f"{key.name}: this is not a witness's key")
    found = None
    for one in note.signatures:
        if not one.is_of(key):
            continue
        if len(one.content) <= _TIME.size:
            raise NoteError("a cosignature that is cut short")
        (seconds,) = _TIME.unpack_from(one.content)
        message = cosigned_message(note.text, seconds)
        if not 0 < seconds <= _LAST_SECOND or not key.verifies(one.content[_TIME.size :], message):
            raise NoteError("a cosignature that is not its witness's")
        found = max(seconds, found or 0)
    return found
