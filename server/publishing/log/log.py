"""The log of the boards of one run: a folder with its key, its entries, and the last checkpoint that was signed.

An entry is on disk before a checkpoint covers it, a checkpoint before a witness sees it, and all of it before a
reader sees the board. Killed at any step, the next process goes on from there: the bytes that were signed about a
board are kept until they are shown, so that its entry is never made twice with another hash.
"""

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedboard.common.boards.log.checkpoints import Checkpoint
from fedboard.common.boards.log.entries import BoardEntry, written
from fedboard.common.boards.log.history import History, HistoryError
from fedboard.common.boards.log.note_keys import NoteKey
from fedboard.common.boards.log.notes import Kind, Note, NoteError
from fedboard.common.boards.log.policy import WitnessPolicy
from fedboard.common.boards.log.proofs import LogProof
from fedboard.common.errors import InputError, PrivacyError
from fedboard.common.files import stamp_of, write_atomically
from fedboard.server.publishing.log.alone import held_alone
from fedboard.server.publishing.log.link import Found, WitnessLink
from fedboard.server.publishing.log.restored import require_decided

_log = logging.getLogger(__name__)

KEY, ENTRIES, CHECKPOINT, STATE = "board-log.key", "entries", "checkpoint", "witnesses.json"
_SIGNED = "signed"
_ANSWER_SECONDS = 5.0
_END = "\n\n"


class BoardLog:
    """A log that is open for writing; one process at a time.

    Guarantee: all checkpoints that it signs are of one tree that only grows, across crashes, as long as its folder
    is not put back to an older copy; what witnesses have seen shows if it was.
    """

    def __init__(self, folder: Path, *, witnesses: Path | None, seconds: float = _ANSWER_SECONDS) -> None:
        """Use ``BoardLog.open``."""
        self.folder = folder
        self._key = NoteKey.read(folder / KEY, kind=Kind.NOTE)
        self._witnesses, self._seconds = witnesses, seconds
        self.policy: WitnessPolicy | None = None
        self._links: list[WitnessLink] = []
        self._read: object = None
        self._unread: str | None = None
        self._read_policy()
        (folder / _SIGNED).mkdir(exist_ok=True)
        self.history, self._n_bytes = _history(folder / ENTRIES)
        self._note = self._signed_note()
        self._told: bytes | None = None
        self._shown: Note | None = None
        self.looked_at: dict[int, object] = {}
        """Version to the state of the file of its manifest that was last held against the log."""

    @classmethod
    @contextmanager
    def open(cls, folder: Path, *, witnesses: Path | None = None) -> "Iterator[BoardLog]":
        """Go on with a log, or begin it.

        Args:
            folder: as ``fedboard keys log`` made it.
            witnesses: a policy file, of whom those with an address are asked; read again when it was changed. None:
                nobody is asked.

        Raises:
            InputError: key or policy cannot be used, or another process writes to the log.
            PrivacyError: the entries are not those that were signed before, or it came out of a backup and nobody
                has decided about it.
        """
        require_decided(folder)
        if not (folder / KEY).is_file():
            raise InputError(f"{folder}: no log of boards; make one with: fedboard keys log --out {folder}")
        with ExitStack() as stack:
            refusal = f"{folder}: another process writes to this log of boards; stop it first"
            stack.enter_context(held_alone(folder / "log.lock", refusal=refusal))
            yield cls(folder, witnesses=witnesses)

    @property
    def problem(self) -> str | None:
        """What a person must look at; None where nothing is wrong."""
        alarms = [f"the witness {one.name} {one.found}" for one in self._links if one.found.is_alarming]
        return "; ".join(alarms if self._unread is None else [*alarms, self._unread]) or None

    def kept(self, version: int) -> bytes | None:
        """What was signed about a board and may not have been shown yet."""
        path = self._kept(version)
        return path.read_bytes() if path.exists() else None

    def keep(self, version: int, signed: bytes) -> None:
        """Keep what was signed about a board until it is shown; durable on return."""
        write_atomically(self._kept(version), signed)

    def forget(self, version: int) -> None:
        """It is with readers now."""
        self._kept(version).unlink(missing_ok=True)

    def add(self, entry: BoardEntry, certificate: Mapping[str, Any] | None) -> None:
        """Write an entry, unless it is there; durable on return.

        Args:
            entry: of a board.
            certificate: of the same board.

        Raises:
            PrivacyError: it is of another run, a second board for its version, or one whose ledger was rolled back.
        """
        if entry in self.history.entries:
            return
        try:
            grown = self.history.with_entry(entry)
            grown.require_ledger(entry.version, certificate)
        except HistoryError as error:
            raise PrivacyError(
                f"{self.folder}: version {entry.version} of the board is not logged and not shown, since the log "
                f"would say that {error}"
            ) from error
        _append(self.folder / ENTRIES, written([entry]), at=self._n_bytes)
        self._n_bytes += len(written([entry]).encode())
        self.history = grown

    def settle(self) -> None:
        """Sign a checkpoint of all entries, and ask for cosignatures that are missing.

        Who answered the last time is waited for, some seconds at most; others are collected the next time. A policy
        that was changed counts from now on; one that cannot be used is a ``problem``, and the one before counts.
        """
        try:
            self._read_policy()
            self._unread = None
        except InputError as error:
            self._unread = str(error)
        fresh = self._checkpointed()
        leaves = self.history.leaves
        missing = [one for one in self._links if not one.has_cosigned(self._note)]
        for one in missing:
            one.begin(self._note, leaves, fresh=fresh)
        deadline = time.monotonic() + self._seconds
        for one in missing:
            found = one.collect(deadline - time.monotonic() if one.is_reliable else 0.0)
            if found is not None:
                self._take(Note(self._note.text, (found,)), one)
        self._tell()

    def show(self, place: Path) -> None:
        """Write what readers check: the last entry's place, all that was said, the cosigned checkpoint."""
        size = len(self.history.entries)
        if self._size() != size or not size or (self._shown == self._note and place.exists()):
            return
        write_atomically(place, LogProof.of(self.history, size - 1, self._note).to_bytes())
        self._shown = self._note

    def _read_policy(self) -> None:
        """Take the policy over, where its file is another one than was read last.

        Raises:
            InputError: it cannot be used; nothing has changed.
        """
        if self._witnesses is None:
            return
        stamp = stamp_of(self._witnesses)
        if stamp is not None and stamp == self._read:
            return
        policy = WitnessPolicy.read(self._witnesses)
        if policy.log != self._key.public:
            raise InputError(
                f"{self.folder / KEY}: this is the key of {self._key.public}, and the policy of witnesses is for "
                f"{policy.log}"
            )
        known = {link.witness: link for link in self._links}
        asked = [one for one in policy.witnesses if one.url is not None]
        self._links = [known.get(one) or WitnessLink(one, seconds=self._seconds) for one in asked]
        if self.policy is not None and policy != self.policy:  # nobody lowers a quorum without a word
            now, before = policy.sentence, self.policy.sentence
            _log.warning(
                "%s was changed and counts from now on: %s; before: %s", self._witnesses, now, before
            )
        self.policy, self._read = policy, stamp

    def _take(self, cosigned: Note, link: WitnessLink) -> None:
        """Put a cosignature on the checkpoint, where it is of this one and not of the one before."""
        assert self.policy is not None
        try:
            if link.name not in self.policy.cosigners(cosigned):
                return
        except NoteError:
            return
        self._note = self._note.with_signatures(cosigned.signatures)
        write_atomically(self.folder / CHECKPOINT, self._note.to_bytes())

    def _checkpointed(self) -> bool:
        """Sign a checkpoint where there are new entries; whether there were."""
        size = len(self.history.entries)
        if size == self._size() and size:
            return False
        text = Checkpoint(self._key.public.name, size, self.history.root(size)).text
        note = Note(text, (self._key.sign(text),))
        write_atomically(self.folder / CHECKPOINT, note.to_bytes())
        self._note = note
        return True

    def _size(self) -> int:
        return Checkpoint.parse(self._note.text).size

    def _signed_note(self) -> Note:
        """The last checkpoint, held against the entries."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            text = Checkpoint(self._key.public.name, 0, self.history.root(0)).text
            return Note(text, (self._key.sign(text),))
        try:
            note = Note.from_bytes(path.read_bytes())
            stated = Checkpoint.parse(note.text)
            holds = note.signed_by(self._key.public) and self.history.root(stated.size) == stated.root
        except ValueError:
            holds = False
        if not holds:
            raise PrivacyError(
                f"{self.folder}: the entries of this log are not those of the checkpoint that it signed last; they "
                "were lost or changed, and to go on would show readers two logs. Restore the folder's newest copy"
            )
        return note

    def _tell(self) -> None:
        """Write down what the witnesses said, for the status and for whoever operates the server."""
        told: dict[str, Any] = {
            "entries": len(self.history.entries),
            "suffices": None if self.policy is None else self.policy.suffices(self._note),
            "witnesses": {
                one.name: str(Found.COSIGNED if one.has_cosigned(self._note) else one.found)
                for one in self._links
            },
        }
        content = json.dumps(told, indent=1).encode()
        if content != self._told:
            self._told = content
            stamped = {**told, "since": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
            write_atomically(self.folder / STATE, json.dumps(stamped, indent=1).encode())

    def _kept(self, version: int) -> Path:
        return self.folder / _SIGNED / f"{version:04d}.json"


def _history(path: Path) -> tuple[History, int]:
    """What was written whole, and how many bytes that is; an entry that a crash cut short never was one."""
    content = path.read_bytes() if path.exists() else b""
    whole = content[: content.rfind(_END.encode()) + len(_END)] if _END.encode() in content else b""
    try:
        return History.parse(whole.decode()), len(whole)
    except ValueError as error:
        raise PrivacyError(
            f"{path}: the entries of this log are damaged ({error}); restore the newest copy of the folder"
        ) from error


def _append(path: Path, text: str, *, at: int) -> None:
    """Write behind so many bytes, over what a crash left there; durable on return."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.ftruncate(handle, at)
        content = text.encode()
        if os.pwrite(handle, content, at) != len(content):
            raise OSError("the disk did not take the whole entry")
        os.fsync(handle)
    finally:
        os.close(handle)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
