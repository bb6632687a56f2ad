"""Which rounds a server has booked: noted before the server draws noise, so that they are never answered again."""

from pathlib import Path
from typing import Final

import msgspec

from fedboard.client.private_files import write_private
from fedboard.common.errors import InputError
from fedboard.common.rounds.question import BookedRound

_MOST_RUNS: Final = 64
_NOTHING: Final = (-1, b"")


class BookedRounds:
    """The last booked round of each run, as its server has signed it, in a small file. Without it a server that was
    put back to an older state could ask a round again, and draw other noise on the answers that were kept.
    """

    def __init__(self, path: Path) -> None:
        """Read what was noted; a file that is not there knows of none.

        Raises:
            InputError: the file is damaged.
        """
        self._path = path
        try:
            self._held = msgspec.json.decode(path.read_bytes(), type=dict[str, tuple[int, bytes]])
        except FileNotFoundError:
            self._held = {}
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: the rounds that servers have booked are damaged ({error}); delete the file only where "
                "you know that no server was put back to an older state"
            ) from None

    def newest(self, run: str) -> int:
        """The last round of a run that is noted; -1: none."""
        return self._held.get(run, _NOTHING)[0]

    def hold(self, booked: BookedRound, signed: bytes) -> bytes:
        """Note a round, unless a later one is; durable on return.

        Args:
            booked: what was signed.
            signed: as it came.

        Returns:
            What was held before, as it came; empty for nothing.
        """
        newest, before = self._held.get(booked.run, _NOTHING)
        if booked.round > newest:
            others = [(run, held) for run, held in self._held.items() if run != booked.run]
            self._held = dict([*others, (booked.run, (booked.round, signed))][-_MOST_RUNS:])
            write_private(self._path, msgspec.json.encode(self._held))
        return before
