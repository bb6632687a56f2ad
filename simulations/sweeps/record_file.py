"""The file that says what was begun in a directory, so that it can go on there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.files import write_atomically

Record = TypeVar("Record", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile(Generic[Record]):
    """Where such a record stands, and what it is of."""

    name: str
    """Of the file."""
    kind: type[Record]
    what: str
    """What people call it, such as "a sweep"."""

    def read(self, out: Path) -> Record:
        """The record in a directory.

        Raises:
            InputError: there is none.
        """
        try:
            return msgspec.json.decode((out / self.name).read_bytes(), type=self.kind)
        except OSError as error:
            raise InputError(
                f"{out} holds no {self.what.partition(' ')[2]} to resume; start it without --resume"
            ) from error
        except msgspec.DecodeError as error:
            raise InputError(f"{out / self.name}: not the record of {self.what} ({error})") from error

    def begin(self, out: Path, record: Record, *, room: str, resume: bool = False) -> None:
        """Make a directory with a folder for what will be computed, and write the record into it.

        Args:
            out: the directory.
            record: what is begun.
            room: name of the folder.
            resume: whether the directory may hold a part of it.

        Raises:
            InputError: there is something else, or it cannot be made.
        """
        if not resume and out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(
                f"{out} is in use; go on with {self.what} that is there with --resume, or give another --out"
            )
        try:
            (out / room).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{out}: cannot be made ({error.strerror})") from error
        write_atomically(out / self.name, msgspec.json.format(msgspec.json.encode(record), indent=1))
