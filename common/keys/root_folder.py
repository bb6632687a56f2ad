"""A folder of root documents: ``1.root.json``, ``2.root.json`` and so on, each signed by keys of the one before."""

from pathlib import Path

from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically
from fedboard.common.keys.roots import MAX_ROOT_BYTES, Root, RootError


class RootFolder:
    """The chain of a fleet's roots on a disk. The newest file may be a draft that too few have signed yet."""

    def __init__(self, folder: Path) -> None:
        """Use a folder, which may be missing or empty."""
        self.folder = folder

    def path(self, version: int) -> Path:
        """Where the root of a version lies."""
        return self.folder / f"{version}.root.json"

    def versions(self) -> list[int]:
        """Whose files are there, ascending."""
        names = (path.name.partition(".")[0] for path in self.folder.glob("*.root.json"))
        return sorted(int(name) for name in names if name.isdigit())

    def content(self, version: int) -> bytes:
        """A file, as it is.

        Raises:
            InputError: it cannot be read.
        """
        try:
            with self.path(version).open("rb") as stream:
                return stream.read(MAX_ROOT_BYTES + 1)
        except OSError as error:
            raise InputError(f"{self.path(version)}: no root can be read there ({error.strerror})") from error

    def chain(self) -> list[Root]:
        """The roots that count, oldest first, each verified against the one before; a draft at the end does not.

        Raises:
            InputError: one of them does not follow from the one before, though there are later ones.
        """
        found: list[Root] = []
        versions = self.versions()
        for version in versions:
            try:
                content = self.content(version)
                found.append(found[-1].successor(content) if found else Root.from_bytes(content))
            except RootError as error:
                if version == versions[-1]:
                    break
                raise InputError(f"{self.path(version)}: {error}") from error
        return found

    @property
    def draft(self) -> int | None:
        """The version of a newest file that does not count yet; None where there is none."""
        versions, chain = self.versions(), self.chain()
        newest = chain[-1].version if chain else 0
        return versions[-1] if versions and versions[-1] > newest else None

    def take(self, chain: list[Root]) -> None:
        """Publish roots into this folder, oldest first; those that are there stay.

        Raises:
            InputError: another root of one of these versions is there; a root that was published is never changed.
        """
        for root in chain:
            self.folder.mkdir(parents=True, exist_ok=True)
            content, place = root.content or b"", self.path(root.version)
            if not place.exists():
                write_atomically(place, content)
            elif place.read_bytes() != content:
                raise InputError(
                    f"{place}: another root of version {root.version} was published; a root never changes, the "
                    "next one is made with: fedboard keys rotate"
                )
