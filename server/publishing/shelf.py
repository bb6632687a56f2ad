"""What the service hands out: the chain as it was at the last look, and files in messages."""

from collections.abc import Iterator

import msgspec

from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.boards_pb2 import Cosignature as CosignatureMessage
from fedboard.common.boards.boards_pb2 import GetRequest
from fedboard.common.boards.boards_pb2 import SignedManifest as SignedMessage
from fedboard.common.boards.manifest import BoardFile, Link
from fedboard.common.boards.methods import CHUNK_BYTES
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.protection import Protection
from fedboard.server.publishing.mirror_files import Mirror


class Shelf:
    """The boards of a mirror. ``reload`` may run in another thread than the rest, one at a time."""

    def __init__(self, mirror: Mirror, *, simulation: bool = False) -> None:
        """Look at a mirror; ``reload`` takes in what is there.

        Args:
            mirror: its manifests are trusted to be what its owner put there; readers verify them.
            simulation: whether to offer boards whose manifest says that their noise is a simulation's.
        """
        self._mirror, self._simulation = mirror, simulation
        self.chain: list[Link] = []
        """All manifests, oldest first, published or not; those that are withheld end it."""
        self._published: dict[int, Link] = {}
        self._by_digest: dict[str, Link] = {}
        self._roots: dict[int, bytes] = {}

    @property
    def latest(self) -> Link | None:
        """The newest board's manifest, if there is one."""
        return self._published[max(self._published)] if self._published else None

    @property
    def withheld(self) -> bool:
        """Whether a simulation is there, where none is to be offered."""
        return any(self._is_withheld(link) for link in self._mirror.chain())

    def reload(self) -> bool:
        """Take in what was signed, cosigned and published since; whether anything was. Of a mirror that cannot be
        read what was read before is still offered.
        """
        try:
            roots = self._mirror.roots
            documents = {version: roots.content(version) for version in roots.versions()}
            chain, published = self._mirror.chain(), len(self._mirror.published())
        except (FedboardError, OSError):
            return False
        shown = next((place for place, link in enumerate(chain) if self._is_withheld(link)), len(chain))
        offered = chain[:shown]
        by_version = {link.manifest.version: link for link in offered[:published]}
        changed = offered != self.chain or by_version != self._published
        self._by_digest = {
            key: link for link in offered[:published] for key in (link.digest, link.manifest.board_digest)
        }
        self.chain, self._published, self._roots = offered, by_version, documents
        return changed

    def root(self, version: int) -> bytes:
        """The root document of a version.

        Raises:
            FeedRefusedError: ``not-found``.
        """
        if version not in self._roots:
            raise FeedRefusedError(FeedCode.NOT_FOUND)
        return self._roots[version]

    def newer(self, known: int | None) -> list[Link]:
        """The boards after a version, oldest first."""
        return [link for version, link in sorted(self._published.items()) if known is None or version > known]

    def after(self, known: frozenset[str]) -> list[Link]:
        """The chain after the last of these manifests; all of it where none of them is there."""
        places = [place for place, link in enumerate(self.chain) if link.digest in known]
        return self.chain[max(places, default=-1) + 1 :]

    def certificate(self, link: Link) -> bytes:
        """The certificate of a manifest's board, JSON; empty where it has none. It reads the board's file.

        Raises:
            FeedRefusedError: ``not-found``: the file is not there or damaged.
        """
        try:
            certificate = self._mirror.board(link).certificate
        except InputError as error:
            raise FeedRefusedError(FeedCode.NOT_FOUND) from error
        return b"" if certificate is None else msgspec.json.encode(certificate)

    def find(self, request: GetRequest) -> Link:
        """The manifest that a request names.

        Raises:
            FeedRefusedError: ``not-found``.
        """
        named = request.WhichOneof("board")
        if named is None:
            link = self.latest
        elif named == "version":
            link = self._published.get(request.version)
        else:
            link = self._by_digest.get(getattr(request, named))
        if link is None:
            raise FeedRefusedError(FeedCode.NOT_FOUND)
        return link

    def chunks(self, file: BoardFile, offset: int) -> Iterator[bytes]:
        """A file from an offset on. It is open only while one is read: a reader may take long."""
        while offset < file.size:
            wanted = min(CHUNK_BYTES, file.size - offset)
            try:
                with self._mirror.file(file.sha256).open("rb") as stream:
                    stream.seek(offset)
                    content = stream.read(wanted)
            except OSError as error:
                raise FeedRefusedError(FeedCode.NOT_FOUND) from error
            if len(content) != wanted:
                raise FeedRefusedError(FeedCode.NOT_FOUND)
            yield content
            offset += wanted

    def _is_withheld(self, link: Link) -> bool:
        return link.manifest.protection is Protection.SIMULATION and not self._simulation


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
