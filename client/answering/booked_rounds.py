"""Which rounds a server has booked: noted before the server draws noise, so that they are never answered again."""

from pathlib import Path
from typing import Final

import msgspec

from fedboard.client.private_files import write_private
from fedboard.common.errors import InputError
from fedboard.common.rounds.booked import BookedRound

_MOST_RUNS: Final = 64


class _Held(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    round: int
    signed: bytes


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
            self._held = msgspec.json.decode(path.read_bytes(), type=dict[str, _Held])
        except FileNotFoundError:
            self._held = {}
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: the rounds that servers have booked are damaged ({error}); delete the file only where "
                "you know that no server was put back to an older state"
            ) from None

    def newest(self, run: str) -> int:
        """The last round of a run that is noted; -1: none."""
        held = self._held.get(run)
        return -1 if held is None else held.round

    def hold(self, booked: BookedRound, signed: bytes) -> bytes:
        """Note a round, unless a later one is; durable on return.

        Args:
            booked: what was signed.
            signed: as it came.

        Returns:
            What was held before, as it came; empty for nothing.
        """
        before = self._held.get(booked.run)
        if booked.round > self.newest(booked.run):
            self._held.pop(booked.run, None)
            self._held[booked.run] = _Held(booked.round, signed)
            for run in list(self._held)[:-_MOST_RUNS]:
                del self._held[run]
            write_private(self._path, msgspec.json.encode(self._held))
        return b"" if before is None else before.signed
