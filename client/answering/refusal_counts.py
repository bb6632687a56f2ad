"""How often this device refused, by code: for its owner's eyes."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from fedboard.client.private_files import write_private
from fedboard.common.errors import InputError
from fedboard.common.wire.refusals import Refusal


class RefusalCounts:
    """Counts in a small file; codes alone, so that no peer can make it grow."""

    def __init__(self, path: Path) -> None:
        """Read the counts; a file that is not there holds none.

        Raises:
            InputError: the file is damaged.
        """
        self._path = path
        try:
            self._counts = msgspec.json.decode(path.read_bytes(), type=dict[Refusal, int])
        except FileNotFoundError:
            self._counts = {}
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: the counts of refusals are damaged ({error}); delete the file, it holds nothing else"
            ) from None

    def add(self, code: Refusal) -> None:
        """Count one more; durable on return."""
        self._counts[code] = self._counts.get(code, 0) + 1
        write_private(self._path, msgspec.json.encode(self._counts, order="sorted"))

    def by_code(self) -> Mapping[Refusal, int]:
        """Code -> number of refusals."""
        return dict(self._counts)
