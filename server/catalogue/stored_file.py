"""Where the files of a data set lie: in a folder or inside a zip archive, read in place either way."""

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, Final, cast

from fedboard.common.errors import InputError
from fedboard.common.files import open_file

_PACKED: Final = ".gz"


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
        """File name without folders, and without the ``.gz`` of a file that is packed by itself."""
        return self._stored_name.removesuffix(_PACKED) or self._stored_name

    @property
    def packed(self) -> bool:
        """Whether it is packed by itself: what is read is then what is inside."""
        return self._stored_name.endswith(_PACKED)

    @property
    def _stored_name(self) -> str:
        return self.path.name if self.member is None else self.member.rsplit("/", 1)[-1]

    @property
    def folder(self) -> str:
        """The folder that holds it, on disk or inside the archive."""
        return str(self.path.parent) if self.member is None else self.member.rpartition("/")[0]

    @property
    def suffix(self) -> str:
        """Lower-case file ending with its dot, such as ``.csv``."""
        return Path(self.base_name).suffix.lower()

    def beside(self, base_name: str) -> "StoredFile":
        """A file of another name in the same folder, on disk or inside the archive; it need not be there."""
        if self.member is None:
            return StoredFile(path=self.path.with_name(base_name))
        return StoredFile(path=self.path, member="/".join([*self.member.split("/")[:-1], base_name]))

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open for reading bytes; what is packed is unpacked as it is read.

        Raises:
            InputError: the file or its archive is missing, unreadable, damaged, cut short or encrypted.
        """
        with self._as_stored() as stream:
            if not self.packed:
                yield stream
                return
            try:
                with gzip.GzipFile(fileobj=stream, mode="rb") as unpacked:
                    yield cast("IO[bytes]", unpacked)
            except (gzip.BadGzipFile, zlib.error, EOFError) as error:
                raise InputError(
                    f"{self.label} is damaged or was cut short ({error}); download or pack it again."
                ) from error

    @contextmanager
    def _as_stored(self) -> Iterator[IO[bytes]]:
        try:
            if self.member is None:
                with open_file(self.path, largest=None) as stream:
                    yield stream
            else:
                with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as member:
                    yield member
        except KeyError as error:  # of zipfile: no member of that name
            raise InputError(f"{self.label} is not in the archive; pack it again.") from error
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
                f"{self.label} cannot be read: {error.strerror or ' '.join(str(error).split())}; check the path "
                "and its permissions."
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
        """The files of a name such as ``mv_*.txt``, sorted, in the folder of that which is nearest to the top.

        Of a file that is there packed and unpacked the latter.
        """
        found = [file for file in self.files if fnmatchcase(file.base_name, pattern)]
        nearest = [file for file in found if file.folder == found[0].folder]
        by_name = {
            file.base_name: file for file in sorted(nearest, key=lambda file: file.packed, reverse=True)
        }
        return tuple(by_name[name] for name in sorted(by_name))


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
