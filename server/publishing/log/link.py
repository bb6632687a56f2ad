"""Asking one witness to cosign, in a thread of its own: a witness that is slow, away or hostile holds up nobody."""

import http.client
import ssl
import threading
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from fedboard.common.boards.log.checkpoints import cosigned_at, size_of
from fedboard.common.boards.log.merkle import consistency_proof
from fedboard.common.boards.log.notes import Note, NoteError, Signature, signatures_of
from fedboard.common.boards.log.policy import Witness
from fedboard.common.boards.log.requests import AddCheckpoint
from fedboard.common.errors import InputError

ADD = "add-checkpoint"
_MOST_BYTES = 1 << 16
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class Found(StrEnum):
    """What became of the last question."""

    NOT_ASKED = "not asked yet"
    COSIGNED = "cosigned"
    AWAY = "does not answer"
    UNKNOWN_LOG = "does not know this log, or not this key of it"
    REFUSED = "has seen another log under this name, and refuses"
    AHEAD = "has seen more of this log than is here: it was rolled back"
    NONSENSE = "answers with something else than its cosignature"

    @property
    def is_alarming(self) -> bool:
        """Whether somebody must look, since to ask again will not help."""
        return self in (Found.REFUSED, Found.AHEAD)


@dataclass(frozen=True, slots=True)
class _Outcome:
    found: Found
    size: int | None = None
    """What the witness has seen of the log."""
    cosignature: Signature | None = None


class WitnessLink:
    """One witness. Its methods are for one thread; it has another one for each question, one at a time."""

    def __init__(self, witness: Witness, *, seconds: float) -> None:
        """Make ready.

        Args:
            witness: with an address.
            seconds: for one answer.

        Raises:
            InputError: its address is none.
        """
        self.name, self.found = witness.name, Found.NOT_ASKED
        self.witness, self._seconds = witness, seconds
        self._place = _place(witness)
        self._seen, self._failures, self._next = 0, 0, 0.0
        self._outcome: _Outcome | None = None
        self._asking: threading.Thread | None = None

    @property
    def is_reliable(self) -> bool:
        """Whether it is worth while to wait for it."""
        return self._failures == 0

    def has_cosigned(self, note: Note) -> bool:
        """Whether its cosignature is on a note already."""
        return any(one.is_of(self.witness.key) for one in note.signatures)

    def begin(self, note: Note, leaves: Sequence[bytes], *, fresh: bool) -> None:
        """Ask it to cosign a checkpoint, unless it is being asked, or failed a moment ago and this is not fresh."""
        if self._asking is not None or (not fresh and time.monotonic() < self._next):
            return
        self._asking = threading.Thread(
            target=self._work, args=(note, leaves, self._seen), name=f"witness-{self.name}", daemon=True
        )
        self._asking.start()

    def collect(self, wait: float = 0.0) -> Signature | None:
        """Its cosignature, if one came since this was asked last; it verifies, of whichever checkpoint it is."""
        if self._asking is None:
            return None
        self._asking.join(max(wait, 0.0))
        if self._asking.is_alive():
            return None
        outcome, self._asking = self._outcome or _Outcome(Found.AWAY), None
        self.found, self._outcome = outcome.found, None
        self._seen = self._seen if outcome.size is None else outcome.size
        self._failures = 0 if outcome.cosignature is not None else self._failures + 1
        pause = min(_FIRST_PAUSE * 2 ** (self._failures - 1), _LONGEST_PAUSE) if self._failures else 0.0
        self._next = time.monotonic() + pause
        return outcome.cosignature

    def _work(self, note: Note, leaves: Sequence[bytes], seen: int) -> None:
        try:
            self._outcome = self._ask(note, leaves, seen)
        except (OSError, http.client.HTTPException):
            self._outcome = _Outcome(Found.AWAY)
        except (NoteError, ValueError):
            self._outcome = _Outcome(Found.NONSENSE)

    def _ask(self, note: Note, leaves: Sequence[bytes], seen: int) -> _Outcome:
        """Ask with what it is believed to have seen; where it says otherwise, once more with that."""
        status, content = self._post(note, leaves, min(seen, len(leaves)))
        if status == HTTPStatus.CONFLICT:
            seen = size_of(content.decode("ascii").removesuffix("\n"))
            if seen > len(leaves):
                return _Outcome(Found.AHEAD, seen)
            status, content = self._post(note, leaves, seen)
        if status == HTTPStatus.OK:
            return _Outcome(Found.COSIGNED, len(leaves), self._verified(note, content))
        return _Outcome(_MEANING.get(status, Found.NONSENSE))

    def _verified(self, note: Note, content: bytes) -> Signature:
        key = self.witness.key
        for one in signatures_of(content.decode()):
            if one.is_of(key) and cosigned_at(Note(note.text, (one,)), key) is not None:
                return one
        raise NoteError("no cosignature of this witness")

    def _post(self, note: Note, leaves: Sequence[bytes], old: int) -> tuple[int, bytes]:
        body = AddCheckpoint(old, tuple(consistency_proof(leaves, old)), note).to_bytes()
        host, path, is_tls = self._place
        connection = (
            http.client.HTTPSConnection(host, timeout=self._seconds, context=ssl.create_default_context())
            if is_tls
            else http.client.HTTPConnection(host, timeout=self._seconds)
        )
        try:
            connection.request("POST", path, body)
            answer = connection.getresponse()
            return answer.status, answer.read(_MOST_BYTES)
        finally:
            connection.close()


_MEANING: Mapping[int, Found] = {
    HTTPStatus.NOT_FOUND: Found.UNKNOWN_LOG,
    HTTPStatus.FORBIDDEN: Found.UNKNOWN_LOG,
    HTTPStatus.UNPROCESSABLE_ENTITY: Found.REFUSED,
    HTTPStatus.CONFLICT: Found.NONSENSE,
    HTTPStatus.SERVICE_UNAVAILABLE: Found.AWAY,
}


def _place(witness: Witness) -> tuple[str, str, bool]:
    """Host and port, path, and whether TLS is spoken."""
    try:
        parts = urllib.parse.urlsplit(witness.url or "")
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise InputError(
            f"the witness {witness.name} has the address {witness.url!r}; give https://HOST, or "
            "http://HOST:PORT on this machine or for a trial"
        )
    return parts.netloc, f"{parts.path.rstrip('/')}/{ADD}", parts.scheme == "https"
