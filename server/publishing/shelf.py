"""What the service hands out: the files of a mirror, as they were at the last look."""

from collections.abc import Iterator

import msgspec

from fedboard.common.boards.layout import LATEST, file_name, manifest_name, root_name
from fedboard.common.boards.manifest import BoardFile, Link
from fedboard.common.boards.methods import CHUNK_BYTES
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError
from fedboard.common.errors import FedboardError, InputError
from fedboard.common.protection import Protection
from fedboard.server.publishing.mirror_files import Mirror


class Shelf:
    """The published files of a mirror. ``reload`` may run in another thread than the rest, one at a time."""

    def __init__(self, mirror: Mirror, *, simulation: bool = False) -> None:
        """Look at a mirror; ``reload`` takes in what is there.

        Args:
            mirror: its manifests are trusted to be what its owner put there; readers verify them.
            simulation: whether to offer boards whose manifest says that their noise is a simulation's.
        """
        self._mirror, self._simulation = mirror, simulation
        self.chain: list[Link] = []
        """All manifests, oldest first, published or not; those that are withheld end it."""
        self._published: list[Link] = []
        self._manifests: dict[str, Link] = {}
        self._boards: dict[str, BoardFile] = {}
        self._roots: dict[str, bytes] = {}

    @property
    def latest(self) -> Link | None:
        """The newest board's manifest, if there is one."""
        return self._published[-1] if self._published else None

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
            documents = {root_name(version): roots.content(version) for version in roots.versions()}
            chain, published = self._mirror.chain(), len(self._mirror.published())
        except (FedboardError, OSError):
            return False
        shown = next((place for place, link in enumerate(chain) if self._is_withheld(link)), len(chain))
        chain, public = chain[:shown], chain[:shown][:published]
        changed = (chain, public) != (self.chain, self._published)
        newest = {LATEST: public[-1]} if public else {}
        self._roots = documents
        self._boards = {file_name(link.manifest.file.sha256): link.manifest.file for link in public}
        self._manifests = {manifest_name(link.digest): link for link in public} | newest
        self.chain, self._published = chain, public
        return changed

    def newer(self, known: int | None) -> list[Link]:
        """The newest board's manifest, where it is of a later version than the known one."""
        latest = self.latest
        return [latest] if latest and (known is None or latest.manifest.version > known) else []

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

    def small(self, name: str) -> bytes | None:
        """A manifest or a root; None where the name is none of theirs."""
        link = self._manifests.get(name)
        return self._roots.get(name) if link is None else link.signed.to_bytes()

    def chunks(self, name: str, offset: int) -> Iterator[bytes]:
        """A board's file from an offset on. It is open only while one is read: a reader may take long.

        Raises:
            FeedRefusedError: ``not-found``, or ``malformed``: the offset is beyond the end.
        """
        file = self._boards.get(name)
        if file is None:
            raise FeedRefusedError(FeedCode.NOT_FOUND)
        if offset > file.size:
            raise FeedRefusedError(FeedCode.MALFORMED)
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
