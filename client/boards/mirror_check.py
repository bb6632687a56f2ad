"""Checking everything that a source offers: what a careful reader, or whoever runs a mirror, does once."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from typing import TypeVar

import numpy as np

from fedboard.client.boards.retrying import PASSING, Patience
from fedboard.client.boards.sources import BoardSource
from fedboard.client.boards.trust import Trust
from fedboard.client.boards.witnessed import WitnessedLog, logged_entry, require_ledger
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey, SignedManifest
from fedboard.common.boards.log.history import History
from fedboard.common.boards.log.policy import WitnessPolicy
from fedboard.common.boards.manifest import BoardFile, Encoding, Manifest
from fedboard.common.boards.packing import unpack
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.errors import InputError
from fedboard.common.keys.validity import Clock
from fedboard.common.protection import Protection, is_as_stated

_UNCHECKED = PASSING | {FeedCode.UNTRUSTED, FeedCode.EXPIRED}
"""What says nothing about the boards."""
_Got = TypeVar("_Got")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found of one manifest or file."""

    check: str
    passed: bool | None
    """None: it could not be checked."""
    detail: str
    protection: Protection | None = None
    """What a manifest says of the noise on its board; None for a file, or for a manifest that cannot be read."""


def check_source(
    source: BoardSource,
    key: PinnedKey,
    *,
    max_bytes: int,
    patience: Patience | None = None,
    clock: Clock = time.time,
    witnesses: WitnessPolicy | None = None,
) -> Iterator[Found]:
    """Check the newest board and all before it: who may sign, signatures, the chain, and every byte of every file.

    Args:
        source: trusted for nothing.
        key: who signs, as it was pinned; the roots that the source has are followed from there.
        max_bytes: largest file and largest board that are read.
        patience: with a source that is busy or away; None for the default.
        clock: of this machine.
        witnesses: whose log must show every board; None: nobody's.

    Yields:
        One for the log, where there are witnesses, and for each manifest and each file.

    Raises:
        FeedRefusedError: there is no newest manifest that enough keys signed, or a root does not follow.
    """
    patiently = _Patiently(patience or Patience())
    keys = _newest_root(source, key, patiently, clock)
    latest = patiently(source.manifest)
    newest, later, history = keys.open(latest), None, None
    if witnesses is not None:
        finding, history = _log_finding(source, witnesses, latest, newest, patiently)
        yield finding
    for version in range(newest.version, -1, -1):
        try:
            signed = patiently(partial(source.manifest, version))
            manifest = keys.open(signed)
        except FeedRefusedError as error:
            if error.code is not FeedCode.NOT_FOUND or version == newest.version:
                yield Found(check=f"version {version}", passed=_failed(error), detail=str(error))
            later = None
            continue
        found = _logged(_continued(manifest, version, newest, later), history, signed, manifest)
        yield found if version < newest.version else _dated(found, manifest, keys, clock)
        for file in manifest.files:
            reading = partial(_read_file, source, manifest, file, history)
            too_large = max(file.size, file.board_size) > max_bytes
            yield _file_finding(manifest, file, None if too_large else partial(patiently, reading))
        later = manifest


def _log_finding(
    source: BoardSource, policy: WitnessPolicy, latest: SignedManifest, newest: Manifest, ask: "_Patiently"
) -> tuple[Found, History | None]:
    """What was found of the log, and all that it has said; None where nobody can rely on it."""
    check = "log of boards"
    try:
        proof = WitnessedLog(policy).take(ask(source.log_proof))
        logged_entry(proof.history, latest, newest)
    except FeedRefusedError as error:
        if error.code is FeedCode.NOT_FOUND:
            error = FeedRefusedError(FeedCode.NOT_WITNESSED)
        return Found(check=check, passed=_failed(error), detail=str(error)), None
    entries, names = len(proof.history.entries), ", ".join(sorted(policy.cosigners(proof.note)))
    detail = f"{entries} entries, cosigned by {names}; {policy.sentence}"
    return Found(check=check, passed=True, detail=detail), proof.history


def _logged(found: Found, history: History | None, signed: SignedManifest, manifest: Manifest) -> Found:
    """What was found of a manifest, with whether it was logged."""
    if history is None:
        return found
    try:
        logged_entry(history, signed, manifest)
    except FeedRefusedError as error:
        return replace(found, passed=False, detail=str(error))
    return replace(found, detail=f"{found.detail}; logged")


def _newest_root(source: BoardSource, key: PinnedKey, ask: "_Patiently", clock: Clock) -> PinnedKey:
    trust = Trust(key, clock=clock)
    try:
        return trust.follow(source, ask)
    except FeedRefusedError as error:
        if error.code is FeedCode.ROOT_EXPIRED:
            return trust.keys  # which is a finding; the rest is looked at too
        raise


def _dated(found: Found, newest: Manifest, keys: PinnedKey, clock: Clock) -> Found:
    """What was found of the newest manifest, with whether it and the root that it is judged by have expired."""
    root = keys.root
    if not root.is_current(clock):
        return replace(found, passed=False, detail=str(FeedRefusedError(FeedCode.ROOT_EXPIRED)))
    if not newest.is_current(clock):
        return replace(found, passed=False, detail=str(FeedRefusedError(FeedCode.OUT_OF_DATE)))
    by = f", root {root.version} until {root.expires}" if root.expires else ""
    return replace(found, detail=f"{found.detail}; good until {newest.expires}{by}")


def protection_of_source(findings: Iterable[Found]) -> Protection:
    """What protects the boards of a source together: one simulation makes all of it one.

    Args:
        findings: as ``check_source`` gives them.
    """
    stated = {found.protection for found in findings if found.protection is not None}
    for protection in (Protection.SIMULATION, Protection.PRIVATE, Protection.NO_DATA):
        if protection in stated:
            return protection
    return Protection.UNSTATED


def _continued(manifest: Manifest, version: int, newest: Manifest, later: Manifest | None) -> Found:
    same = manifest.version == version and manifest.run == newest.run
    chained = later is None or later.previous_digest == manifest.board_digest
    detail = "signed; " + (
        "the next board continues it" if chained else "the next board does not continue it"
    )
    return Found(
        check=f"version {version}",
        passed=same and chained,
        detail=f"{detail}; {manifest.protection.verdict}"
        if same
        else "signed, but as another version or run",
        protection=manifest.protection,
    )


class _Patiently:
    """Asks a source that is busy or away again; one that stays so is no longer waited for."""

    def __init__(self, patience: Patience) -> None:
        self._patience, self._left = patience, patience.attempts

    def __call__(self, ask: Callable[[], _Got]) -> _Got:
        try:
            return self._patience.ask(ask, attempts=self._left)
        except FeedRefusedError as error:
            self._left = 1 if error.code in PASSING else self._left
            raise


def _failed(error: FeedRefusedError) -> bool | None:
    return None if error.code in _UNCHECKED else False


def _file_finding(manifest: Manifest, file: BoardFile, reading: Callable[[], str] | None) -> Found:
    check = f"version {manifest.version}, {file.encoding.value}" + (
        " since an earlier board" if file.bases else ""
    )
    try:
        if reading is None:
            return Found(check=check, passed=None, detail=str(FeedRefusedError(FeedCode.TOO_LARGE)))
        detail = reading()
    except FeedRefusedError as error:
        return Found(check=check, passed=_failed(error), detail=str(error))
    except InputError as error:
        return Found(check=check, passed=False, detail=str(error))
    return Found(check=check, passed=True, detail=detail)


def _read_file(source: BoardSource, manifest: Manifest, file: BoardFile, history: History | None) -> str:
    content = bytearray()
    for piece in source.read(manifest, file, 0):
        content += piece
        if len(content) > file.size:
            raise FeedRefusedError(FeedCode.WRONG_DIGEST)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise FeedRefusedError(FeedCode.WRONG_DIGEST)
    if file.bases:
        return f"{file.size} bytes as signed; builds on versions {', '.join(map(str, file.bases))}"
    board_file = bytes(content)
    if file.encoding is not Encoding.EXACT:
        board_file = b"".join(unpack(BytesIO(board_file), board_size=file.board_size))
    board = Board.from_bytes(np.frombuffer(board_file, dtype=np.uint8))
    if board.digest != file.board_digest or hashlib.sha256(board_file).hexdigest() != file.board_sha256:
        raise FeedRefusedError(FeedCode.WRONG_DIGEST)
    if not is_as_stated(board, manifest.protection, board_digest=manifest.board_digest):
        raise FeedRefusedError(FeedCode.NOT_AS_STATED)
    if history is not None:
        require_ledger(history, board)
    return f"{file.size} bytes as signed, board {board.digest[:16]}"
