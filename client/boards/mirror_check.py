"""Checking everything that a source offers: what a careful reader, or whoever runs a mirror, does once."""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.feed import BoardFeed
from fedboard.client.boards.seen import continues_ledger
from fedboard.client.boards.sources import PASSING, BoardSource, Patience
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey
from fedboard.common.boards.manifest import Link, Manifest, back_from
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.validity import Clock
from fedboard.common.protection import Protection

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
    with TemporaryDirectory(prefix="fedboard-check-") as folder:
        cache = BoardCache(Path(folder), max_bytes=max_bytes)
        feed = BoardFeed(
            source, key, cache, max_bytes=max_bytes, simulation=True, patience=patience, clock=clock
        )
        yield from _checked(source, feed, clock)


def _checked(source: BoardSource, feed: BoardFeed, clock: Clock) -> Iterator[Found]:
    def ask(question: Callable[[], _Got]) -> _Got:
        """Again where it is busy or away; a source that stays so is no longer waited for."""
        try:
            return feed.patience.ask(question)
        except FeedRefusedError as error:
            _give_up(feed, error)
            raise

    try:
        feed.trust.follow(source, ask)
    except FeedRefusedError as error:
        if error.code is not FeedCode.ROOT_EXPIRED:  # which is a finding; the rest is looked at too
            raise
    keys, latest = feed.trust.keys, ask(source.manifest)
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
        board, found = _of_board(feed, link.manifest)
        yield found
        if later and board and not continues_ledger(later, board):
            detail = str(FeedRefusedError(FeedCode.LEDGER_CHANGED))
            yield Found(check=f"version {later.version}, ledger", passed=False, detail=detail)
        later = board or later


def _give_up(feed: BoardFeed, error: FeedRefusedError) -> None:
    if error.code in PASSING:
        feed.patience = replace(feed.patience, attempts=1)


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


def _of_board(feed: BoardFeed, manifest: Manifest) -> tuple[Board | None, Found]:
    check = f"version {manifest.version}, its board"
    try:
        path = feed.download(manifest).path
        board = Board.load(path)
        path.unlink()  # so that all boards of a mirror take no more room than one, and none makes room for another
    except FeedRefusedError as error:
        _give_up(feed, error)
        passed = None if error.code is FeedCode.TOO_LARGE else _failed(error)  # larger than is read
        return None, Found(check=check, passed=passed, detail=str(error))
    detail = f"{manifest.file.size} bytes as signed, board {board.digest[:16]}"
    return board, Found(check=check, passed=True, detail=detail)
