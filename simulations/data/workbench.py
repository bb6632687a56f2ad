"""Where ratings are read, numbered and sorted: a duckdb database of its own, in a private folder, in stated memory.

Whatever a source looks like, its rows go the same way: read as text, checked, users and items numbered in the order
of their ids, rows sorted by user and item. What does not fit into memory is sorted on disk.
"""

import atexit
import gc
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedboard.client.private_files import open_private
from fedboard.common.errors import InputError, StorageError
from fedboard.server.catalogue.stored_file import StoredFile

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BYTES_AT_ONCE = 1 << 20
_ROWS_AT_ONCE = 1 << 20
_ON_DISK = ("No space left", "max_temp_directory_size", "failed to offload", "Could not write")
"""Words of duckdb where the disk is full."""


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


class Workbench:
    """One database, used by one thread; closed and forgotten at the end."""

    def __init__(self, folder: Path, *, memory: int | None = None) -> None:
        """Open it.

        Args:
            folder: private and empty; what does not fit into memory goes there.
            memory: bytes that duckdb may take; None: four fifths of the machine's, since all rows are wanted in
                memory anyway.

        Raises:
            InputError: duckdb is not installed.
        """
        if find_spec("duckdb") is None or find_spec("pyarrow") is None:
            raise InputError(
                "reading ratings needs duckdb and pyarrow; pip install '.[sim]' in the checkout."
            )
        import duckdb

        atexit.unregister(gc.freeze)  # of a command (``starting``): duckdb complains of what is never freed
        self._folder, self._files, self._tables = folder, 0, 0
        options: dict[str, Any] = {
            # Nothing is loaded or fetched that is not in the package.
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            "allow_community_extensions": "false",
            "temp_directory": str(folder / "sorting"),
        }
        # On disk rows take a third of the room, and longer to write.
        place = ":memory:" if memory is None else str(folder / "rows.duckdb")
        if memory is not None:
            options["memory_limit"] = f"{memory // 1024}KiB"
        with self.telling():
            self._database: DuckDBPyConnection = duckdb.connect(place, config=options)
            self._database.execute("SET TimeZone = 'UTC'; SET enable_progress_bar = false")

    def close(self) -> None:
        """Let go of the files."""
        self._database.close()

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Tell in a sentence that the disk is full or memory too small; other errors of duckdb are the source's.

        Raises:
            StorageError: so it is.
        """
        import duckdb

        try:
            yield
        except duckdb.OutOfMemoryException as error:
            raise StorageError(
                f"{self._folder}: sorting needs more memory than it may take, or the disk is full "
                f"({first_line_of(error)}); allow more with --memory, or free some space."
            ) from error
        except duckdb.IOException as error:
            if any(words in str(error) for words in _ON_DISK):
                raise StorageError(
                    f"{self._folder}: {first_line_of(error)}; nothing was kept. Free some space."
                ) from error
            raise

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of an answer."""
        with self.telling():
            return self._database.execute(sql).fetchall()

    def one(self, sql: str) -> Any:
        """The one value of an answer."""
        return self.query(sql)[0][0]

    def arrow(self, sql: str) -> Iterator[Any]:
        """An answer as ``pyarrow.RecordBatch`` es, in a cursor of its own."""
        cursor = self._database.cursor()
        try:
            with self.telling():
                yield from cursor.sql(sql).to_arrow_reader(_ROWS_AT_ONCE)
        finally:
            cursor.close()

    def path(self, file: StoredFile) -> str:
        """A file as a literal of SQL that names this one file: plain, unpacked, whatever characters its name has.

        Raises:
            InputError: it cannot be read, or is damaged.
            StorageError: there is no room to unpack it.
        """
        self._files += 1
        place = self._folder / f"file-{self._files}"
        with file.open() as stream:
            if file.member is None and not file.packed:
                place.symlink_to(file.path.resolve())
            else:
                self._unpack(stream, place)
        return quoted(str(place))

    def new_file(self) -> Path:
        """A place for a file of a reader's own."""
        self._files += 1
        return self._folder / f"file-{self._files}"

    @staticmethod
    def _unpack(stream: Any, place: Path) -> None:
        with open_private(place) as copy:
            while part := stream.read(_BYTES_AT_ONCE):
                try:
                    copy.write(part)
                except OSError as error:
                    raise StorageError(f"{place}: {error.strerror}; free some space to unpack it.") from error

    def register(self, table: Any) -> str:
        """A table of pyarrow, or whatever gives one, under a name for SQL; nothing is copied."""
        self._tables += 1
        name = f"given_{self._tables}"
        self._database.register(name, table)
        return name


@contextmanager
def workbench(folder: Path | None = None, *, memory: int | None = None) -> Iterator[Workbench]:
    """A workbench while the block runs; its folder goes with it.

    Args:
        folder: where its own is made; None: where temporary files are.
        memory: see ``Workbench``.
    """
    with tempfile.TemporaryDirectory(prefix="fedboard-", dir=folder, ignore_cleanup_errors=True) as name:
        bench = Workbench(Path(name), memory=memory)
        try:
            yield bench
        finally:
            bench.close()


def first_line_of(error: Exception) -> str:
    """What duckdb says, without the kind of error and without its hints."""
    with suppress(StopIteration):
        return next(line for line in str(error).splitlines() if line.strip()).partition(": ")[2] or str(error)
    return type(error).__name__
