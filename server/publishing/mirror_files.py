"""A mirror's folder on the publisher's disk."""

from pathlib import Path

from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.layout import MANIFESTS, ROOTS, file_name, manifest_name
from fedboard.common.boards.manifest import Manifest
from fedboard.common.keys.root_folder import RootFolder


class Mirror:
    """A mirror's folder."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which may be missing or empty."""
        self.folder = folder

    def versions(self) -> list[int]:
        """Versions whose manifest is complete, ascending."""
        return sorted(int(path.stem) for path in (self.folder / MANIFESTS).glob("[0-9]*.json"))

    def signed(self, version: int) -> SignedManifest:
        """The manifest of a version.

        Raises:
            FileNotFoundError: it is not there.
            FeedRefusedError: the file is damaged.
        """
        return SignedManifest.from_bytes(self.manifest(version).read_bytes())

    def manifest(self, version: int) -> Path:
        """Where the manifest of a version is."""
        return self.folder / manifest_name(version)

    def run(self) -> str:
        """The run whose boards these are, as the newest manifest says; its signature is not looked at.

        Raises:
            FeedRefusedError: the file is damaged.
        """
        return Manifest.from_bytes(self.signed(self.versions()[-1]).content.encode()).run

    @property
    def roots(self) -> RootFolder:
        """The roots that readers follow."""
        return RootFolder(self.folder / ROOTS)

    def file(self, sha256: str) -> Path:
        """Where a file is."""
        return self.folder / file_name(sha256)
