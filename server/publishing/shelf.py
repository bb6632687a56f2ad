"""What the service hands out, ready to send: manifests and chunks as messages, made once and kept."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from fedboard.common.boards.boards_pb2 import GetRequest, Part
from fedboard.common.boards.boards_pb2 import SignedManifest as SignedMessage
from fedboard.common.boards.layout import LOG_PROOF
from fedboard.common.boards.manifest import BoardFile, Encoding, Manifest
from fedboard.common.boards.methods import CHUNK_BYTES
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.files import stamp_of
from fedboard.common.protection import Protection
from fedboard.server.publishing.mirror_files import Mirror

_CACHED_BYTES = 256 << 20
_Stamp: TypeAlias = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One board as it is offered. Public."""

    manifest: Manifest
    message: bytes
    """The signed manifest as a message."""
    part: bytes
    """The same as the first part of a download."""


class Shelf:
    """The boards of a mirror."""

    def __init__(
        self, mirror: Mirror, *, simulation: bool = False, cached_bytes: int = _CACHED_BYTES
    ) -> None:
        """Look at a mirror; ``reload`` takes in what is there.

        Args:
            mirror: its manifests are trusted to be what its owner put there; readers verify them.
            simulation: whether to offer boards whose manifest says that their noise is a simulation's.
            cached_bytes: most bytes of chunks kept in memory.
        """
        self._mirror, self._simulation = mirror, simulation
        self._offers: dict[int, Offer] = {}
        self._by_digest: dict[str, int] = {}
        self._stamps: dict[int, _Stamp] = {}
        self._roots: dict[int, bytes] = {}
        self._chunks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._room = cached_bytes
        self.damaged: set[int] = set()
        """Versions whose manifest cannot be read; they are not offered."""
        self.withheld: set[int] = set()
        """Versions that are simulations, where none are to be offered."""

    @property
    def latest(self) -> Offer | None:
        """The newest board, if there is one."""
        return self._offers[max(self._offers)] if self._offers else None

    def reload(self) -> list[Offer]:
        """Take in what was published since, and what was signed again; returns new boards, oldest first."""
        for version in self._mirror.roots.versions():
            if version not in self._roots:
                self._roots[version] = self._mirror.roots.content(version)
        found = []
        for version in self._mirror.versions():
            stamp = stamp_of(self._mirror.manifest(version))
            if stamp == self._stamps.get(version):
                continue
            self._stamps[version] = stamp
            is_new = version not in self._offers
            if self._take(version) and is_new:
                found.append(self._offers[version])
        return found

    def root(self, version: int) -> bytes:
        """The root document of a version.

        Raises:
            FeedRefusedError: ``not-found``.
        """
        if version not in self._roots:
            raise FeedRefusedError(FeedCode.NOT_FOUND)
        return self._roots[version]

    def _take(self, version: int) -> bool:
        """Read one manifest; whether it is offered now."""
        for kept in (self.damaged, self.withheld):
            kept.discard(version)
        try:
            offer = self._read(version)
        except FeedRefusedError:
            self.damaged.add(version)
            self._offers.pop(version, None)
            return False
        if offer.manifest.protection is Protection.SIMULATION and not self._simulation:
            self.withheld.add(version)
            self._offers.pop(version, None)
            return False
        self._offers[version] = offer
        self._by_digest[offer.manifest.board_digest] = version
        return True

    def newer(self, known: int | None) -> list[Offer]:
        """The boards after a version, oldest first."""
        return [self._offers[version] for version in sorted(self._offers) if known is None or version > known]

    def find(self, request: GetRequest) -> Offer:
        """The board that a request names.

        Raises:
            FeedRefusedError: ``not-found``.
        """
        named = request.WhichOneof("board")
        version = request.version if named == "version" else self._by_digest.get(request.digest, -1)
        offer = self.latest if named is None else self._offers.get(version)
        if offer is None:
            raise FeedRefusedError(FeedCode.NOT_FOUND)
        return offer

    def file(self, offer: Offer, request: GetRequest) -> BoardFile | None:
        """The file that a request names; None where it asks for the manifest alone.

        Raises:
            FeedRefusedError: ``not-found``, ``malformed`` for an offset that lies beyond its end.
        """
        if not request.encoding:
            return None
        if request.encoding not in set(Encoding):
            raise FeedRefusedError(FeedCode.NOT_FOUND)
        base = request.base if request.HasField("base") else None
        file = offer.manifest.file(Encoding(request.encoding), base)
        if file is None:
            raise FeedRefusedError(FeedCode.NOT_FOUND)
        if request.offset > file.size:
            raise FeedRefusedError(FeedCode.MALFORMED)
        return file

    def log_proof(self) -> list[bytes]:
        """The messages that carry what was logged of the boards, as it is now.

        Raises:
            FeedRefusedError: ``not-found``: they are not logged.
        """
        try:
            content = (self._mirror.folder / LOG_PROOF).read_bytes()
        except OSError as error:
            raise FeedRefusedError(FeedCode.NOT_FOUND) from error
        return [_part(content[start : start + CHUNK_BYTES]) for start in range(0, len(content), CHUNK_BYTES)]

    def parts(self, file: BoardFile, offset: int) -> Iterator[tuple[int, bytes]]:
        """The messages that carry a file from an offset on, each with the number of the file's bytes in it."""
        while offset < file.size:
            start = offset - offset % CHUNK_BYTES
            stop = min(start + CHUNK_BYTES, file.size)
            if offset == start:
                yield stop - offset, self._chunk(file, start, stop)
            else:
                yield stop - offset, _part(self._content(file, offset, stop))
            offset = stop

    def _read(self, version: int) -> Offer:
        signed = self._mirror.signed(version)
        manifest = Manifest.from_bytes(signed.content.encode())
        try:
            first, *more = (bytes.fromhex(one) for one in (signed.signature, *signed.more))
        except ValueError as error:
            raise FeedRefusedError(FeedCode.MALFORMED) from error
        message = SignedMessage(content=signed.content.encode(), signature=first, more=more)
        if manifest.version != version:
            raise FeedRefusedError(FeedCode.MALFORMED)
        return Offer(
            manifest=manifest,
            message=message.SerializeToString(),
            part=Part(manifest=message).SerializeToString(),
        )

    def _chunk(self, file: BoardFile, start: int, stop: int) -> bytes:
        key = (file.sha256, start)
        cached = self._chunks.get(key)
        if cached is not None:
            self._chunks.move_to_end(key)
            return cached
        message = _part(self._content(file, start, stop))
        self._chunks[key] = message
        self._room -= len(message)
        while self._room < 0 and self._chunks:
            _, oldest = self._chunks.popitem(last=False)
            self._room += len(oldest)
        return message

    def _content(self, file: BoardFile, start: int, stop: int) -> bytes:
        try:
            with self._mirror.file(file.sha256).open("rb") as stream:
                stream.seek(start)
                content = stream.read(stop - start)
        except OSError as error:
            raise FeedRefusedError(FeedCode.NOT_FOUND) from error
        if len(content) != stop - start:
            raise FeedRefusedError(FeedCode.NOT_FOUND)
        return content


def _part(content: bytes) -> bytes:
    return bytes(Part(chunk=content).SerializeToString())
