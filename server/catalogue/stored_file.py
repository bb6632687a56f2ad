"""Where the files of a data set lie: in a folder or inside a zip archive, read in place either way."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO

from fedboard.common.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file, on disk or as a member of a zip archive."""

    path: Path
    """The file, or the archive that holds it."""
    member: str | None = None
    """Name inside the archive."""

    @property
    def label(self) -> str:
        """How messages name the file."""
        return str(self.path) if self.member is None else f"{self.path} ({self.member})"

    @property
    def base_name(self) -> str:
        """File name without folders."""
        return self.path.name if self.member is None else self.member.rsplit("/", 1)[-1]

    @property
    def folder(self) -> str:
        """The folder that holds it, on disk or inside the archive."""
        return str(self.path.parent) if self.member is None else self.member.rpartition("/")[0]

    @property
    def suffix(self) -> str:
        """Lower-case file ending with its dot, such as ``.csv``."""
        return Path(self.base_name).suffix.lower()

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open for reading bytes.

        Raises:
            InputError: the file or its archive is missing, unreadable, damaged or encrypted.
        """
        try:
            if self.member is None:
                with self.path.open("rb") as stream:
                    yield stream
            else:
                with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as member:
                    yield member
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise InputError(
                f"{self.path} is a broken zip archive ({error}); download or pack it again."
            ) from error
        except (NotImplementedError, RuntimeError) as error:
            raise InputError(
                f"{self.label} cannot be unpacked ({error}); use a zip archive without encryption."
            ) from error
        except OSError as error:
            raise InputError(
                f"{self.label} cannot be read: {error.strerror or error}; check the path and its permissions."
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A folder or a zip archive, and the files in it."""

    path: Path
    files: tuple[StoredFile, ...]

    def find(self, base_name: str) -> StoredFile | None:
        """The file of that name nearest to the top, or None."""
        return next((file for file in self.files if file.base_name == base_name), None)

    def matching(self, pattern: str) -> tuple[StoredFile, ...]:
        """The files of a name such as ``mv_*.txt``, sorted, in the folder of that which is nearest to the top."""
        found = [file for file in self.files if fnmatchcase(file.base_name, pattern)]
        nearest = [file for file in found if file.folder == found[0].folder]
        return tuple(sorted(nearest, key=lambda file: file.base_name))


def folder(path: Path) -> Place:
    """The files that lie directly in a folder."""
    try:
        names = sorted(entry for entry in path.iterdir() if entry.is_file())
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}; check the path and its permissions."
        ) from error
    return Place(path=path, files=tuple(StoredFile(path=name) for name in names))


def archive(path: Path) -> Place:
    """The files in a zip archive, at any depth, nearest to the top first.

    Raises:
        InputError: the archive is damaged or no zip archive at all.
    """
    try:
        with zipfile.ZipFile(path) as opened:
            names = [entry.filename for entry in opened.infolist() if not entry.is_dir()]
    except (zipfile.BadZipFile, OSError) as error:
        raise InputError(f"{path} is a broken zip archive ({error}); download or pack it again.") from error
    # macOS packs a shadow of each file that carries the same base name after "._".
    kept = [name for name in names if not name.startswith("__MACOSX/")]
    kept.sort(key=lambda name: (name.count("/"), name))
    return Place(path=path, files=tuple(StoredFile(path=path, member=name) for name in kept))
