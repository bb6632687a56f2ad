"""The rules of a witness (c2sp.org/tlog-witness), and its memory: of each log the last checkpoint that it cosigned.

Its memory is all that its word is worth: a witness that goes back to an older copy of it can be told another story.
"""

import hashlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from fedboard.common.boards.log.checkpoints import Checkpoint, cosigned_at
from fedboard.common.boards.log.merkle import EMPTY_ROOT, is_consistent
from fedboard.common.boards.log.note_keys import NoteKey
from fedboard.common.boards.log.notes import Note, NoteError, Signature, VerifierKey
from fedboard.common.boards.log.requests import AddCheckpoint
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.files import write_atomically
from fedboard.server.publishing.log.alone import held_alone

_TEXT, _SIZE = "text/plain; charset=utf-8", "text/x.tlog.size"


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered."""

    status: HTTPStatus
    content: bytes = b""
    kind: str = _TEXT


class _RefusedError(Exception):
    """A checkpoint is not cosigned."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.reply = Reply(status, f"{words}\n".encode())


class Witness:
    """One witness of some logs. One thread at a time.

    Guarantee: all checkpoints of a log that it ever cosigned are of one tree that only grew, across crashes: what
    it cosigned is on disk before anybody has the cosignature.
    """

    def __init__(self, key: NoteKey, logs: Iterable[VerifierKey], folder: Path) -> None:
        """Take up a memory, or begin one.

        Args:
            key: cosigns.
            logs: keys of the logs that it knows; several of one name are keys of one log.
            folder: of its memory, made if it is missing. Never go back to an older copy of it.

        Raises:
            InputError: no log is named.
            PrivacyError: what is in the folder is not what this witness cosigned.
        """
        self._key, self._folder = key, folder
        self._logs: dict[str, list[VerifierKey]] = {}
        for log in logs:
            self._logs.setdefault(log.name, []).append(log)
        if not self._logs:
            raise InputError("a witness needs to know whose checkpoints to cosign: name a log")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._last = {origin: self._remembered(origin) for origin in self._logs}

    def alone(self) -> AbstractContextManager[None]:
        """Be the one process that cosigns from this memory.

        Raises:
            InputError: another one does.
        """
        refusal = f"{self._folder}: another witness works with this memory; stop it first"
        return held_alone(self._folder / "witness.lock", refusal=refusal)

    @property
    def sizes(self) -> dict[str, int]:
        """Log to the size that was cosigned last."""
        return {origin: _checkpoint(note).size for origin, note in self._last.items()}

    def add_checkpoint(self, body: bytes) -> Reply:
        """Cosign a checkpoint that continues the last one that was; it is on disk before it is answered."""
        try:
            asked = AddCheckpoint.from_bytes(body)
            stated = _checkpoint(asked.note)
            self._require_signed(asked.note, stated.origin)
            last = _checkpoint(self._last[stated.origin])
            if asked.old_size > stated.size:
                raise _RefusedError(HTTPStatus.BAD_REQUEST, "the old size is larger than the checkpoint's")
            if asked.old_size != last.size:
                return Reply(HTTPStatus.CONFLICT, f"{last.size}\n".encode(), _SIZE)
            _require_grown(last, stated, asked)
        except NoteError as error:
            return _RefusedError(HTTPStatus.BAD_REQUEST, str(error)).reply
        except _RefusedError as refused:
            return refused.reply
        cosignature = self._key.cosign(asked.note.text)
        self._remember(stated.origin, asked.note, cosignature)
        return Reply(HTTPStatus.OK, f"{cosignature.line}\n".encode())

    def checkpoint(self, origin_hash: str) -> Reply:
        """The last checkpoint of a log with this witness's cosignature, for whoever watches.

        Args:
            origin_hash: SHA-256 of the log's name, hexadecimal.
        """
        for origin, note in self._last.items():
            if note is not None and _name_of(origin) == origin_hash:
                return Reply(HTTPStatus.OK, note.to_bytes())
        return Reply(HTTPStatus.NOT_FOUND, b"no checkpoint of such a log was cosigned here\n")

    def _require_signed(self, note: Note, origin: str) -> None:
        known = self._logs.get(origin)
        if known is None:
            raise _RefusedError(HTTPStatus.NOT_FOUND, "this log is not known here")
        try:
            signed = [key for key in known if note.signed_by(key)]
        except NoteError as error:
            raise _RefusedError(HTTPStatus.FORBIDDEN, str(error)) from error
        if not signed:
            raise _RefusedError(HTTPStatus.FORBIDDEN, "the log's key did not sign this")

    def _remember(self, origin: str, note: Note, cosignature: Signature) -> None:
        ours = [one for one in note.signatures if any(one.is_of(key) for key in self._logs[origin])]
        kept = Note(note.text, (*ours, cosignature))
        write_atomically(self._folder / f"{_name_of(origin)}.checkpoint", kept.to_bytes())
        self._last[origin] = kept

    def _remembered(self, origin: str) -> Note | None:
        path = self._folder / f"{_name_of(origin)}.checkpoint"
        if not path.exists():
            return None
        try:
            note = Note.from_bytes(path.read_bytes())
            sound = _checkpoint(note).origin == origin and cosigned_at(note, self._key.public) is not None
        except NoteError:
            sound = False
        if not sound:
            raise PrivacyError(
                f"{path}: this is not what this witness cosigned last of {origin}; restore the newest copy of its "
                "memory, or begin again with another key"
            )
        return note


def _checkpoint(note: Note | None) -> Checkpoint:
    """What a note states; of no note a log without leaves."""
    return Checkpoint("-", 0, EMPTY_ROOT) if note is None else Checkpoint.parse(note.text)


def _require_grown(last: Checkpoint, stated: Checkpoint, asked: AddCheckpoint) -> None:
    if not stated.is_sound:
        raise _RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, "no leaves have another root")
    if last.size == 0:
        grown = not asked.hashes
    else:
        grown = is_consistent(last.size, last.root, stated.size, stated.root, asked.hashes)
    if not grown:
        raise _RefusedError(
            HTTPStatus.UNPROCESSABLE_ENTITY, "the tree does not continue the one that was cosigned last"
        )


def _name_of(origin: str) -> str:
    return hashlib.sha256(origin.encode()).hexdigest()
