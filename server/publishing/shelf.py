"""What the service hands out, ready to send: manifests and chunks as messages, made once and kept."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from fedboard.common.board import Board
from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.boards_pb2 import Cosignature as CosignatureMessage
from fedboard.common.boards.boards_pb2 import GetRequest, Part
from fedboard.common.boards.boards_pb2 import SignedManifest as SignedMessage
from fedboard.common.boards.chain import Link
from fedboard.common.boards.manifest import BoardFile, Encoding, Manifest
from fedboard.common.boards.methods import CHUNK_BYTES
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.protection import Protection
from fedboard.server.publishing.mirror_files import Mirror

_CACHED_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One manifest as it is offered. Public."""

    link: Link
    message: SignedMessage

    @property
    def manifest(self) -> Manifest:
        """What it says."""
        return self.link.manifest

    @property
    def part(self) -> bytes:
        """The first part of a download."""
        return bytes(Part(manifest=self.message).SerializeToString())


class Shelf:
    """The boards of a mirror. ``reload`` may run in another thread than the rest, one at a time."""

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
        self.chain: list[Offer] = []
        """All manifests, oldest first, published or not; those that are withheld end it."""
        self._offers: dict[int, Offer] = {}
        self._by_digest: dict[str, Offer] = {}
        self._roots: dict[int, bytes] = {}
        self._chunks: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._room = cached_bytes
        self.problem: str | None = None
        """Why the mirror could not be read at the last look; what was read before is still offered."""

    @property
    def latest(self) -> Offer | None:
        """The newest board, if there is one."""
        return self._offers[max(self._offers)] if self._offers else None

    @property
    def withheld(self) -> bool:
        """Whether a simulation is there, where none is to be offered."""
        return any(self._is_withheld(link) for link in self._mirror.chain())

    def reload(self) -> bool:
        """Take in what was signed, cosigned and published since; whether anything was."""
        try:
            roots = {
                version: self._mirror.roots.content(version) for version in self._mirror.roots.versions()
            }
            chain, published = self._mirror.chain(), len(self._mirror.published())
            shown = next((place for place, link in enumerate(chain) if self._is_withheld(link)), len(chain))
            before = {offer.link.digest: offer for offer in self.chain}
            offers = [_offer(link, before.get(link.digest)) for link in chain[:shown]]
        except (FedboardError, OSError) as error:
            self.problem = str(error)
            return False
        self.problem, self._roots = None, roots
        by_version = {offer.manifest.version: offer for offer in offers[:published]}
        changed = offers != self.chain or by_version != self._offers
        self._by_digest = {
            key: offer
            for offer in offers[:published]
            for key in (offer.link.digest, offer.manifest.board_digest)
        }
        self.chain, self._offers = offers, by_version
        return changed

    def root(self, version: int) -> bytes:
        """The root document of a version.

        Raises:
            FeedRefusedError: ``not-found``.
        """
        if version not in self._roots:
            raise FeedRefusedError(FeedCode.NOT_FOUND)
        return self._roots[version]

    def newer(self, known: int | None) -> list[Offer]:
        """The boards after a version, oldest first."""
        return [self._offers[version] for version in sorted(self._offers) if known is None or version > known]

    def after(self, known: frozenset[str]) -> list[Offer]:
        """The chain after the last of these manifests; all of it where none of them is there."""
        places = [place for place, offer in enumerate(self.chain) if offer.link.digest in known]
        return self.chain[max(places, default=-1) + 1 :]

    def certificate(self, offer: Offer) -> bytes:
        """The certificate of a manifest's board, JSON; empty where it has none. It reads the board's file.

        Raises:
            FeedRefusedError: ``not-found``: the file is not there or damaged.
        """
        place = self._mirror.board_file(offer.link)
        try:
            if place is None:
                raise FeedRefusedError(FeedCode.NOT_FOUND)
            certificate = Board.from_bytes(np.memmap(place, dtype=np.uint8, mode="r")).certificate
        except (OSError, ValueError, InputError) as error:
            raise FeedRefusedError(FeedCode.NOT_FOUND) from error
        return b"" if certificate is None else msgspec.json.encode(certificate)

    def find(self, request: GetRequest) -> Offer:
        """The manifest that a request names.

        Raises:
            FeedRefusedError: ``not-found``.
        """
        named = request.WhichOneof("board")
        if named is None:
            offer = self.latest
        elif named == "version":
            offer = self._offers.get(request.version)
        else:
            offer = self._by_digest.get(getattr(request, named))
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

    def _is_withheld(self, link: Link) -> bool:
        return link.manifest.protection is Protection.SIMULATION and not self._simulation

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


def message_of(signed: SignedManifest) -> SignedMessage:
    """A signed manifest as a message.

    Raises:
        FeedRefusedError: ``malformed``.
    """
    try:
        return SignedMessage(
            content=signed.content.encode(),
            signatures=[bytes.fromhex(one) for one in signed.signatures],
            cosignatures=[
                CosignatureMessage(key=bytes.fromhex(one.key), signature=bytes.fromhex(one.signature))
                for one in signed.cosignatures
            ],
        )
    except ValueError as error:
        raise FeedRefusedError(FeedCode.MALFORMED) from error


def _offer(link: Link, before: Offer | None) -> Offer:
    if before is not None and before.link == link:
        return before
    return Offer(link=link, message=message_of(link.signed))


def _part(content: bytes) -> bytes:
    return bytes(Part(chunk=content).SerializeToString())
