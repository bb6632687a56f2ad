"""The files of a mirror, as every source of boards has them."""

import contextlib
from collections.abc import Generator, Iterator

from fedboard.common.boards.board_signature import MAX_MANIFEST_BYTES, SignedManifest
from fedboard.common.boards.layout import LATEST, file_name, manifest_name, root_name
from fedboard.common.boards.manifest import Manifest
from fedboard.common.boards.roots import MAX_ROOT_BYTES


class MirrorSource:
    """A mirror's files, wherever they lie."""

    def pieces(self, name: str, size: int = 0, offset: int = 0) -> Generator[bytes, None, None]:
        """A file of the mirror, of which so many bytes may come, from an offset on, in pieces of at most
        ``CHUNK_BYTES``.
        """
        raise NotImplementedError

    def manifest(self, digest: str | None = None) -> SignedManifest:
        """``latest.json``, or another one."""
        name = LATEST if digest is None else manifest_name(digest)
        return SignedManifest.from_bytes(self._small(name, 2 * MAX_MANIFEST_BYTES))

    def read(self, manifest: Manifest, offset: int) -> Iterator[bytes]:
        """From its file."""
        return self.pieces(file_name(manifest.file.sha256), manifest.file.size - offset, offset)

    def root(self, version: int) -> bytes:
        """From its file."""
        return self._small(root_name(version), MAX_ROOT_BYTES)

    def close(self) -> None:
        """Nothing is held."""

    def _small(self, name: str, most: int) -> bytes:
        """A whole file, or one byte more than it may have."""
        found = b""
        with contextlib.closing(self.pieces(name)) as pieces:
            for piece in pieces:
                found += piece
                if len(found) > most:
                    break
        return found[: most + 1]
