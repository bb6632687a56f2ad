"""Checking everything that a source offers: what a careful reader, or whoever runs a mirror, does once."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from itertools import chain
from typing import TypeVar

import numpy as np

from fedboard.client.boards.retrying import PASSING, Patience
from fedboard.client.boards.seen import Trust, continues_ledger, has_ledger
from fedboard.client.boards.sources import BoardSource
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.layout import unpack
from fedboard.common.boards.manifest import Link, Manifest, back_from
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.validity import Clock
from fedboard.common.errors import InputError
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
) -> Iterator[Found]:
    """Check the newest board and all before it: who may sign, signatures, the chain, and every byte of every file.

    Args:
        source: trusted for nothing.
        key: who signs, and who must cosign, as it was pinned; the roots of the source are followed from there.
        max_bytes: largest file and largest board that are read.
        patience: with a source that is busy or away; None for the default.
        clock: of this machine.

    Yields:
        One for the cosignatures, where there are witnesses, and for each manifest and each file.

    Raises:
        FeedRefusedError: there is no newest manifest that enough keys signed, or a root does not follow.
    """
    waits = patience or Patience()

    def ask(question: Callable[[], _Got]) -> _Got:
        """Again where it is busy or away; a source that stays so is no longer waited for."""
        nonlocal waits
        try:
            return waits.ask(question)
        except FeedRefusedError as error:
            waits = replace(waits, attempts=1) if error.code in PASSING else waits
            raise

    trust = Trust(key, clock=clock)
    try:
        trust.follow(source, ask)
    except FeedRefusedError as error:
        if error.code is not FeedCode.ROOT_EXPIRED:  # which is a finding; the rest is looked at too
            raise
    keys, latest = trust.keys, ask(source.manifest)
    newest = Link(latest, keys.open(latest))
    if keys.witnesses is not None:
        names = ", ".join(one.hex()[:16] for one in keys.witnesses.cosigners(latest)) or "nobody"
        detail = f"cosigned by {names}; {keys.witnesses.sentence}"
        yield Found(check="cosignatures", passed=keys.witnesses.suffice(latest), detail=detail)
    later, version = None, -1
    links = chain([newest], back_from(newest, lambda digest: ask(partial(source.manifest, digest))))
    while True:
        try:
            link = next(links)
        except StopIteration:
            return
        except FeedRefusedError as error:
            yield Found(check="chain of manifests", passed=_failed(error), detail=str(error))
            return
        yield _of_manifest(link, newest, keys, clock)
        if link.manifest.version == version:
            continue  # its board was checked with the newer manifest
        version = link.manifest.version
        board, found = _of_board(source, link.manifest, ask, max_bytes)
        yield found
        if later and board and not continues_ledger(later, board):
            detail = str(FeedRefusedError(FeedCode.LEDGER_CHANGED))
            yield Found(check=f"version {later.version}, ledger", passed=False, detail=detail)
        later = board or later


def _of_manifest(link: Link, newest: Link, keys: PinnedKey, clock: Clock) -> Found:
    """What was found of a manifest of the chain; of the newest, whether it or the root has expired."""
    manifest, root, passed = link.manifest, keys.root, True
    detail = f"signed {manifest.signed}; {manifest.protection.verdict}"
    if link is not newest:
        detail = f"in the chain; {detail}"
    elif not root.is_current(clock):
        passed, detail = False, str(FeedRefusedError(FeedCode.ROOT_EXPIRED))
    elif not manifest.is_current(clock):
        passed, detail = False, str(FeedRefusedError(FeedCode.OUT_OF_DATE))
    else:
        by = f", root {root.version} until {root.expires}" if root.expires else ""
        detail = f"{detail}; good until {manifest.expires}{by}"
    renewed = f", renewal {manifest.renewal}" if manifest.renewal else ""
    return Found(
        check=f"version {manifest.version}{renewed}",
        passed=passed,
        detail=detail,
        protection=manifest.protection,
    )


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


def _failed(error: FeedRefusedError) -> bool | None:
    return None if error.code in _UNCHECKED else False


def _of_board(
    source: BoardSource, manifest: Manifest, ask: Callable[[Callable[[], Board]], Board], max_bytes: int
) -> tuple[Board | None, Found]:
    check, file = f"version {manifest.version}, its board", manifest.file
    if max(file.size, file.board_size) > max_bytes:
        detail = str(FeedRefusedError(FeedCode.TOO_LARGE))
        return None, Found(check=check, passed=None, detail=detail)
    try:
        board = ask(partial(_read_board, source, manifest))
    except FeedRefusedError as error:
        return None, Found(check=check, passed=_failed(error), detail=str(error))
    except InputError as error:
        return None, Found(check=check, passed=False, detail=str(error))
    return board, Found(
        check=check, passed=True, detail=f"{file.size} bytes as signed, board {board.digest[:16]}"
    )


def _read_board(source: BoardSource, manifest: Manifest) -> Board:
    file, content = manifest.file, bytearray()
    for piece in source.read(manifest, 0):
        content += piece
        if len(content) > file.size:
            raise FeedRefusedError(FeedCode.WRONG_DIGEST)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise FeedRefusedError(FeedCode.WRONG_DIGEST)
    board_file = b"".join(unpack(BytesIO(content), board_size=file.board_size))
    board = Board.from_bytes(np.frombuffer(board_file, dtype=np.uint8))
    if board.digest != manifest.board_digest or hashlib.sha256(board_file).hexdigest() != file.board_sha256:
        raise FeedRefusedError(FeedCode.WRONG_DIGEST)
    if not is_as_stated(board, manifest.protection, board_digest=manifest.board_digest):
        raise FeedRefusedError(FeedCode.NOT_AS_STATED)
    if not has_ledger(board, manifest):
        raise FeedRefusedError(FeedCode.LEDGER_CHANGED)
    return board
