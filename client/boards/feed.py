"""Fetching boards: verified before they are used, resumed where they broke off, never older than what was seen."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.seen import Seen, Trust, continues_ledger, has_ledger
from fedboard.client.boards.sources import PASSING, BoardSource, Patience, TellingSource
from fedboard.common.board import Board
from fedboard.common.boards.board_signature import PinnedKey, SignedManifest
from fedboard.common.boards.layout import SEEN, unpack
from fedboard.common.boards.manifest import BoardFile, Link, Manifest
from fedboard.common.boards.methods import allowed_seconds
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.boards.validity import Clock, utc_seconds
from fedboard.common.errors import InputError
from fedboard.common.files import held_alone
from fedboard.common.protection import Protection, is_as_stated

_BETTER_LATER = PASSING | {FeedCode.NOT_WITNESSED}
"""What may go better next time, of a board that is there: witnesses may still be asked."""
_WATCH_SECONDS = 6 * 3600.0
"""After so long a reader who waits asks again, also where nothing was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A board that is in the cache now."""

    manifest: Manifest
    path: Path
    received: int
    """Bytes of the file that came over the wire this time; 0 where the board was here already."""


class BoardFeed:
    """A reader's view of one run's boards.

    Guarantee: a board gets into the cache only if the pinned key signed its manifest, or enough of the keys that
    the newest root names (see ``Trust``), it is of the followed run, has not expired, is no older than the newest
    manifest ever seen here, continues it where versions are consecutive, every byte is the one that was signed,
    and the releases that its certificate lists have private noise; a simulation gets in where simulations are
    taken, and only if its manifest says so too. The chain of manifests from the one that was seen to this one is
    whole (see ``Seen``), with the ledger that its certificate states; with witnesses, enough of them have cosigned
    it. Whatever fails, the boards that were in the cache stay; only when one comes whose keys replaced those of the
    boards here, these go: a thief may have signed them.
    Not guaranteed: that there is no newer board; a server can withhold it, until the one that it shows expires.
    """

    def __init__(
        self,
        source: BoardSource,
        key: PinnedKey,
        cache: BoardCache,
        *,
        run: str | None = None,
        max_bytes: int = 1 << 30,
        simulation: bool = False,
        patience: Patience | None = None,
        clock: Clock = time.time,
    ) -> None:
        """Look at a source.

        Args:
            source: trusted for nothing.
            key: who signs, and who must cosign, as it was pinned.
            cache: of this run alone; remembers the newest manifest seen, and the roots.
            run: the run to follow; None: the one that the cache follows, or the first one met.
            max_bytes: largest file and largest board that are taken.
            simulation: whether to take boards whose noise can be reproduced from its seed.
            patience: None for the default.
            clock: of this machine.
        """
        self._source, self._cache, self._clock = source, cache, clock
        self.trust = Trust(key, cache.folder, clock=clock)
        self._run, self._max_bytes = run, max_bytes
        self._simulation, self.patience = simulation, patience or Patience()

    def seen(self) -> Manifest | None:
        """The newest manifest that was ever verified here, or None (see ``Seen.newest``)."""
        newest = self._chain.newest()
        return None if newest is None else newest.manifest

    def fetch(self, version: int | None = None) -> Fetched:
        """Get the newest board, or that of a version, unless it is here already.

        Raises:
            FeedRefusedError: with a fixed code; nothing of what was in the cache is lost.
        """
        self.trust.follow(self._source, self.patience.ask)
        return self._take(self.patience.ask(self._source.manifest), version=version)

    @property
    def _chain(self) -> Seen:
        return Seen(self._cache.folder, self.trust.keys)

    def _verified(self, signed: SignedManifest, *, dated: bool = True) -> tuple[Link, list[Link]]:
        """Verify a manifest that is offered as the newest one, against the keys and against what was seen before;
        nothing is stored, but two manifests that contradict each other.

        Args:
            signed: from anybody.
            dated: whether it may not have expired.

        Returns:
            It, and the way back to the one that was seen.

        Raises:
            FeedRefusedError: ``bad-signature``, ``malformed``, ``too-large``, ``out-of-date``, ``root-expired``,
                ``not-witnessed``, ``simulation``, ``wrong-run``, ``rollback``, ``broken-chain``,
                ``ledger-changed`` or ``split-view``.
        """
        keys = self.trust.keys
        offered = Link(signed, keys.open_newest(signed, clock=self._clock) if dated else keys.open(signed))
        keys.require_cosigned(signed)
        self._require_wanted(offered.manifest)
        return offered, self._chain.require_continued(offered, self._earlier)

    def _require_wanted(self, manifest: Manifest) -> None:
        if manifest.protection is Protection.SIMULATION and not self._simulation:
            raise FeedRefusedError(FeedCode.SIMULATION)
        seen = self.seen()
        followed = self._run or (None if seen is None else seen.run)
        if followed is not None and manifest.run != followed:
            raise FeedRefusedError(FeedCode.WRONG_RUN)

    def _earlier(self, digest: str) -> SignedManifest:
        return self.patience.ask(lambda: self._source.manifest(digest))

    def _of_version(self, newest: Link, version: int) -> Manifest:
        """What the chain says of an earlier version."""
        link = newest
        for link in chain([newest], self._chain.back_from(newest, self._earlier)):
            if link.manifest.version <= version:
                break
        if link.manifest.version != version:
            raise FeedRefusedError(FeedCode.NOT_FOUND)
        self._require_wanted(link.manifest)
        return link.manifest

    def follow(self) -> Iterator[Fetched]:
        """Each new board as it is published, without end.

        Raises:
            FeedRefusedError: as for ``fetch``.
        """
        failures = 0
        while True:
            try:
                for signed in self._news():
                    self.trust.follow(self._source)
                    fetched, failures = self._take(signed), 0
                    if fetched.received:
                        yield fetched
            except FeedRefusedError as error:
                failures += 1
                if error.code not in _BETTER_LATER or failures >= self.patience.attempts:
                    raise
                self.patience.wait(failures)

    def _news(self) -> Iterator[SignedManifest]:
        while isinstance(self._source, TellingSource):
            seen, begun, seconds = self.seen(), self._clock(), self._until_expiry()
            yield from self._source.watch(None if seen is None else seen.version, seconds=seconds)
            if self._clock() < begun + seconds:
                raise FeedRefusedError(FeedCode.UNREACHABLE)  # the service went away
            yield self._source.manifest()  # which was renewed, or nobody publishes any more
        while True:
            yield self._source.manifest()
            self.patience.sleep(self.patience.poll_seconds)

    def _until_expiry(self) -> float:
        """How long to wait for news before asking again."""
        seen = self.seen()
        if seen is None:
            return _WATCH_SECONDS
        return min(max(utc_seconds(seen.expires) - self._clock(), 1.0), _WATCH_SECONDS)

    def _take(self, signed: SignedManifest, *, version: int | None = None) -> Fetched:
        with self.alone():
            return self._take_alone(signed, version=version)

    def _take_alone(self, signed: SignedManifest, *, version: int | None) -> Fetched:
        newest, way = self._verified(signed, dated=version is None)
        manifest = newest.manifest if version is None else self._of_version(newest, version)
        seen_before = (self._cache.folder / SEEN).exists()
        if self.seen() is None and seen_before:  # seen under a key that may not sign any more
            self._cache.keep_only({manifest.board_digest})
        self._chain.remember(newest, way)
        for cached in self._cache.boards():
            with suppress(InputError):  # damaged, and fetched again
                if cached.digest == manifest.board_digest and _is_as_stated(cached.path, manifest):
                    self._require_ledger(cached.path, manifest)
                    return Fetched(manifest=manifest, path=cached.path, received=0)
        return self.download(manifest)

    def alone(self) -> AbstractContextManager[None]:
        """Keep other processes from fetching into the same cache; a crash leaves no lock behind."""
        folder = self._cache.folder
        refusal = f"{folder}: another process is fetching boards into this cache; wait for it"
        return held_alone(folder / "fetch.lock", refusal=refusal)

    def _require_ledger(self, board_file: Path, manifest: Manifest) -> None:
        """Refuse a board with another ledger than was signed, or than the board before it in the cache states."""
        board = Board.load(board_file)
        earlier = [cached.digest for cached in self._cache.boards() if cached.version < board.version]
        sound = has_ledger(board, manifest)
        with suppress(InputError):  # damaged, and deleted by that
            sound = sound and (not earlier or continues_ledger(board, self._cache.load(earlier[-1])))
        if not sound:
            raise FeedRefusedError(FeedCode.LEDGER_CHANGED)

    def download(self, manifest: Manifest) -> Fetched:
        """Get the board of a manifest that is believed, and check every byte of it.

        Raises:
            FeedRefusedError: ``too-large``, ``wrong-digest``, ``not-as-stated``, ``ledger-changed``; or the source
                has not all of it.
        """
        file = manifest.file
        if max(file.size, file.board_size) > self._max_bytes:
            raise FeedRefusedError(FeedCode.TOO_LARGE)
        arriving = self._cache.folder / f"{file.sha256}.part"
        for abandoned in self._cache.folder.glob("*.part"):
            if abandoned != arriving:
                abandoned.unlink(missing_ok=True)
        received = self._receive(manifest, arriving)
        try:
            board_file = _unpacked(arriving, file)
            if not _is_as_stated(board_file, manifest):
                board_file.unlink(missing_ok=True)
                raise FeedRefusedError(FeedCode.NOT_AS_STATED)
            self._require_ledger(board_file, manifest)
            path = self._cache.adopt(board_file, digest=manifest.board_digest)
        except InputError as error:  # the key signed something that is no board, or not this one
            raise FeedRefusedError(FeedCode.WRONG_DIGEST) from error
        finally:
            arriving.unlink(missing_ok=True)
        return Fetched(manifest=manifest, path=path, received=received)

    def _receive(self, manifest: Manifest, arriving: Path) -> int:
        """Read what is missing of a file, over as many attempts as it takes; the number of bytes that came."""
        file, failures, before = manifest.file, 0, _size(arriving)
        end = time.monotonic() + allowed_seconds(file.size - before, self.patience.piece_seconds)
        while (held := _size(arriving)) < file.size:
            try:
                self._read_on(manifest, arriving, held)
            except FeedRefusedError as error:
                if error.code not in PASSING:
                    raise
            arrived = _size(arriving)
            if arrived == file.size:
                break
            failures = 1 if arrived > held else failures + 1
            if failures >= self.patience.attempts or time.monotonic() > end:
                raise FeedRefusedError(FeedCode.UNREACHABLE)
            self.patience.wait(failures)
        return file.size - before

    def _read_on(self, manifest: Manifest, arriving: Path, held: int) -> None:
        with arriving.open("ab") as stream:
            for piece in self._source.read(manifest, held):
                held += len(piece)
                if held > manifest.file.size:
                    stream.close()
                    arriving.unlink()
                    raise FeedRefusedError(FeedCode.WRONG_DIGEST)
                stream.write(piece)


def _is_as_stated(path: Path, manifest: Manifest) -> bool:
    """Whether a board's certificate bears out its manifest; one that was kept without its certificate does not."""
    return is_as_stated(Board.load(path), manifest.protection, board_digest=manifest.board_digest)


def _unpacked(arrived: Path, file: BoardFile) -> Path:
    """The board file that a complete download becomes, checked byte by byte."""
    if _sha256(arrived) != file.sha256:
        raise FeedRefusedError(FeedCode.WRONG_DIGEST)
    board_file, digest = arrived.with_suffix(".board.part"), hashlib.sha256()
    with arrived.open("rb") as packed, board_file.open("wb") as stream:
        for piece in unpack(packed, board_size=file.board_size):
            digest.update(piece)
            stream.write(piece)
    if digest.hexdigest() != file.board_sha256:
        board_file.unlink()
        raise FeedRefusedError(FeedCode.WRONG_DIGEST)
    return board_file


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
