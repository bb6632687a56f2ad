"""A log of anything, and a hostile holder of its key: what a witness is asked."""

from collections.abc import Sequence

from fedboard.common.boards.log.checkpoints import Checkpoint
from fedboard.common.boards.log.merkle import consistency_proof, leaf_hash, root_of
from fedboard.common.boards.log.note_keys import NoteKey
from fedboard.common.boards.log.notes import Kind, Note
from fedboard.common.boards.log.requests import AddCheckpoint

ORIGIN = "boards.example/films"


class Log:
    """Leaves, and a key that signs whatever it is told to."""

    def __init__(self, key: NoteKey | None = None, words: Sequence[str] = ()) -> None:
        self.key = key or NoteKey.generate(ORIGIN, Kind.NOTE)
        self.leaves = [leaf_hash(word.encode()) for word in words]

    def grown(self, *words: str) -> "Log":
        """The same log with more in it."""
        other = Log(self.key)
        other.leaves = [*self.leaves, *(leaf_hash(word.encode()) for word in words)]
        return other

    def note(
        self, size: int | None = None, *, root: bytes | None = None, extensions: tuple[str, ...] = ()
    ) -> Note:
        size = len(self.leaves) if size is None else size
        made = root_of(self.leaves[:size]) if root is None else root
        text = Checkpoint(self.key.public.name, size, made, extensions).text
        return Note(text, (self.key.sign(text),))

    def request(self, old: int = 0, size: int | None = None, **note: bytes) -> bytes:
        size = len(self.leaves) if size is None else size
        hashes = consistency_proof(self.leaves[:size], old) if old <= size else []
        return AddCheckpoint(old, tuple(hashes), self.note(size, **note)).to_bytes()
