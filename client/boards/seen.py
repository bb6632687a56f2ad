"""What a reader remembers of a run's chain of manifests, beside the boards: never less or other than before.

``seen.json`` is the newest manifest that was ever verified here, ``manifests/`` the way that led to it, as far as
the reader went. Two manifests that contradict each other are kept, both; while they are there, nothing of the run
is taken.

Following the chain of root documents: from what was pinned to who may sign now.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey, SignedManifest
from fedboard.common.boards.layout import MANIFESTS, ROOTS, SEEN, manifest_name, root_name
from fedboard.common.boards.manifest import Earlier, Link, Manifest, back_from, contradict, require_next
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.roots import MOST_ROOTS, RootError
from fedboard.common.boards.validity import Clock
from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically

if TYPE_CHECKING:  # a device that answers asks nobody for boards, and needs no HTTP
    from fedboard.client.boards.sources import BoardSource

EVIDENCE: Final = ("contradiction-1.json", "contradiction-2.json")
"""Two manifests that nobody honest can have signed both; anybody can be shown them."""
_RUN_ID = re.compile("-[0-9a-f]{32}$")


class Seen:
    """One run's chain, as far as a reader knows it.

    Guarantee: what is taken has the same board, ledger and history for each version that was seen before, or it is
    refused and both are kept. With witnesses, as long as no more of them lie than ``Witnesses.bears``, everybody
    who pinned the same ones is shown the same board for a version here, or none.
    Not guaranteed: that the boards are right; that there is no newer one.
    """

    def __init__(self, folder: Path, keys: PinnedKey) -> None:
        """Look at a folder.

        Args:
            folder: of the boards.
            keys: who may sign now, and who must cosign.
        """
        self._folder, self._keys = folder, keys

    def newest(self) -> Link | None:
        """The newest manifest that was ever verified here. One of a key that may not sign now does not count, so
        that nobody can block what follows with a stolen key and a version from far ahead; but one that enough of
        the reader's witnesses have cosigned does, whatever has become of its key.
        """
        return self._counting(self._folder / SEEN)

    def require_whole(self) -> None:
        """Refuse a run of which two manifests contradict each other.

        Raises:
            FeedRefusedError: ``split-view``.
        """
        one, other = (self._counting(self._folder / name) for name in EVIDENCE)
        if one is not None and other is not None and one.digest != other.digest:
            raise FeedRefusedError(FeedCode.SPLIT_VIEW)

    def require_continued(self, offered: Link, earlier: Earlier) -> list[Link]:
        """Hold a manifest that enough have signed and cosigned against what was seen.

        Args:
            offered: said to be the newest.
            earlier: gives those before it.

        Returns:
            The way from it back to the version that was seen, newest first.

        Raises:
            FeedRefusedError: ``split-view``, ``rollback``, ``broken-chain``, ``wrong-run`` or ``ledger-changed``;
                or the source has not all of the chain.
        """
        self.require_whole()
        seen = self.newest()
        if seen is None or seen.manifest.run != offered.manifest.run:
            return []
        if contradict(seen.manifest, offered.manifest):
            self._keep_evidence(seen, offered)
        if offered.manifest.place < seen.manifest.place:
            raise FeedRefusedError(FeedCode.ROLLBACK)
        way, after = list[Link](), offered
        while after.manifest.version > seen.manifest.version and after.digest != seen.digest:
            if after.manifest.previous_manifest == seen.digest:
                require_next(seen, after)
                break
            before = next(self.back_from(after, earlier), None)
            if before is None or before.manifest.version < seen.manifest.version:
                self._keep_evidence(seen, after)  # a chain in which what was seen never was
                break
            if contradict(seen.manifest, before.manifest):
                self._keep_evidence(seen, before)
            way.append(before)
            after = before
        return way

    def back_from(self, link: Link, earlier: Earlier) -> Iterator[Link]:
        """As ``chain.back_from``; what is kept here is not asked for."""
        return back_from(
            link, lambda digest: _kept_at(self._folder / manifest_name(digest)) or earlier(digest)
        )

    def remember(self, newest: Link, way: list[Link]) -> None:
        """Keep a manifest that was verified as the newest, and the way to it."""
        (self._folder / MANIFESTS).mkdir(mode=0o700, parents=True, exist_ok=True)
        for link in (*way, newest):
            path = self._folder / manifest_name(link.digest)
            if not path.exists():
                write_atomically(path, link.signed.to_bytes())
        write_atomically(self._folder / SEEN, newest.signed.to_bytes())

    def _keep_evidence(self, seen: Link, offered: Link) -> None:
        for name, link in zip(EVIDENCE, (seen, offered), strict=True):
            write_atomically(self._folder / name, link.signed.to_bytes())
        raise FeedRefusedError(FeedCode.SPLIT_VIEW)

    def _counting(self, path: Path) -> Link | None:
        signed, witnesses = _kept_at(path), self._keys.witnesses
        if signed is None:
            return None
        try:
            link = Link.of(signed)
            if witnesses is None or not witnesses.suffice(signed):
                self._keys.open(signed)
        except FeedRefusedError:
            return None
        return link


def _kept_at(path: Path) -> SignedManifest | None:
    try:
        return SignedManifest.from_bytes(path.read_bytes())
    except (OSError, FeedRefusedError):
        return None


class CosignedBoards:
    """The boards in a folder that enough witnesses have cosigned; it is verified again, and asks nobody."""

    def __init__(self, witnesses: Witnesses, folder: Path) -> None:
        """Look at a folder that boards were fetched into.

        Args:
            witnesses: who must have cosigned.
            folder: of the boards.
        """
        self.witnesses, self._folder = witnesses, folder

    def manifests(self) -> Iterator[Manifest]:
        """The chain from the newest that was seen backwards, as far as it is here; nothing where too few have
        cosigned that one, or two contradict each other.
        """
        signed = _kept_at(self._folder / SEEN)
        split = all((self._folder / name).exists() for name in EVIDENCE)
        if signed is None or split or not self.witnesses.suffice(signed):
            return
        with suppress(OSError, FeedRefusedError):  # the end of what is here
            newest = Link.of(signed)
            yield newest.manifest
            for link in back_from(newest, self._earlier):
                yield link.manifest

    def _earlier(self, digest: str) -> SignedManifest:
        return SignedManifest.from_bytes((self._folder / manifest_name(digest)).read_bytes())

    def has(self, digest: str) -> bool:
        """Whether an exact board with this digest is one of them."""
        return any(manifest.board_digest == digest for manifest in self.manifests())

    def shows(self, board: Board, *, run: str | None = None) -> bool:
        """Whether this board, of this run, is the one of its version, and its ledger the one that was cosigned.

        Args:
            board: as it was asked about.
            run: as a server names it to devices, with its ledger's id behind; None: any.
        """
        stated = next((one for one in self.manifests() if one.version == board.version), None)
        if stated is None or board.digest != stated.board_digest:
            return False
        if run is not None and run not in (stated.run, f"{stated.run}-{stated.run_id}"):
            return False
        return has_ledger(board, stated)

    def require_shown(self, board: Board, place: Path) -> None:
        """Refuse a board that is none of them.

        Raises:
            InputError: it is not.
        """
        if not self.shows(board):
            raise InputError(
                f"{place}: too few of your witnesses have cosigned version {board.version} of this board here; "
                "fetch it with: fedboard board fetch ... --witness KEY"
            )


def run_stem(run: str) -> str:
    """The public name of a run, without the id of its ledger, which a server puts behind it for devices."""
    return _RUN_ID.sub("", run)


def has_ledger(board: Board, manifest: Manifest) -> bool:
    """Whether a board's certificate states the ledger that its manifest states.

    A board of version 0 holds no data: a question about it brings no certificate, and no ledger is behind it.
    """
    if board.version == 0 and board.certificate is None:
        return True
    releases = _releases(board.certificate)
    head = (board.certificate or {}).get("ledger_head")
    return releases is not None and (len(releases), head) == (manifest.releases, manifest.ledger_head)


def continues_ledger(board: Board, earlier: Board) -> bool:
    """Whether the releases of an earlier board of the run begin those of a later one."""
    before, after = _releases(earlier.certificate), _releases(board.certificate)
    if not before:
        return True
    return after is not None and after[: len(before)] == before


def _releases(certificate: Mapping[str, Any] | None) -> list[Any] | None:
    releases = (certificate or {}).get("releases", [])
    return list(releases) if isinstance(releases, list | tuple) else None


Ask: TypeAlias = Callable[[Callable[[], bytes]], bytes]
"""Asks a source, again where it is busy."""


class Trust:
    """Who may sign, as a reader knows it: what she pinned, and every root that followed it.

    Guarantee: a root is believed only if a threshold of the keys of the one before, and of its own, have signed
    it; those that are kept are verified again, from the pinned one on, each time they are read. A reader who was
    away for many roots follows them one by one, and stops at a gap.
    Not guaranteed: that there is no newer root; whoever stands between can keep it back, until the one that is
    known expires.
    """

    def __init__(self, pinned: PinnedKey, kept: Path | None = None, *, clock: Clock = time.time) -> None:
        """Start from what is pinned, and what is kept.

        Args:
            pinned: known beforehand.
            kept: folder in which roots are remembered; None: they are not.
            clock: of this machine.
        """
        self._kept, self._clock = kept, clock
        self.keys = pinned if kept is None else pinned.followed(lambda version: kept / root_name(version))
        """Of the newest root that is known. What is kept of a chain from another pinned key does not count."""

    def follow(self, source: "BoardSource", ask: Ask = lambda question: question()) -> PinnedKey:
        """Take the roots that a source has after the newest known one.

        Args:
            source: trusted for nothing.
            ask: with patience, where the reader has any.

        Returns:
            Who may sign now.

        Raises:
            FeedRefusedError: ``bad-root`` for one that does not follow; those before it count. ``root-expired``
                where the newest has. Or the source cannot be read.
        """
        for _ in range(MOST_ROOTS):
            if not self._took_next(source, ask):
                break
        if not self.keys.root.is_current(self._clock):  # that of one in between does not matter
            raise FeedRefusedError(FeedCode.ROOT_EXPIRED)
        return self.keys

    def _took_next(self, source: "BoardSource", ask: Ask) -> bool:
        try:
            content = ask(partial(source.root, self.keys.root.version + 1))
        except FeedRefusedError as error:
            if error.code is FeedCode.NOT_FOUND:
                return False
            raise
        try:
            self.keys = self.keys.successor(content)
        except RootError as error:
            raise FeedRefusedError(FeedCode.BAD_ROOT) from error
        self._keep(content)
        return True

    def _keep(self, content: bytes) -> None:
        if self._kept is not None:
            (self._kept / ROOTS).mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._kept / root_name(self.keys.root.version), content)
