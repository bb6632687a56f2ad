"""The newest list of devices that this device has seen of each fleet, so that an older one is not taken again."""

from pathlib import Path

import msgspec

from fedboard.client.private_files import write_private
from fedboard.common.errors import InputError
from fedboard.common.keys.roster import Roster
from fedboard.common.wire.refusals import Refusal, RefusedError


class _Seen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    number: int
    digest: str


class NewestRoster:
    """Numbers and digests in a small file. Without it a server could go back to a list that still names a device
    which was taken off, or have its authority sign two lists of one number for two halves of a fleet.
    """

    def __init__(self, path: Path) -> None:
        """Read what was seen; a file that is not there knows of none.

        Raises:
            InputError: the file is damaged.
        """
        self._path = path
        try:
            self._seen = msgspec.json.decode(path.read_bytes(), type=dict[str, _Seen])
        except FileNotFoundError:
            self._seen = {}
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path}: the numbers of lists of devices are damaged ({error}); delete the file only where you "
                "know that your fleet's list is the newest one"
            ) from None

    def admit(self, roster: Roster) -> None:
        """Take note of a list; durable on return.

        Raises:
            RefusedError: ``other-roster``: a newer one was seen, or another one of the same number.
        """
        found, seen = _Seen(roster.number, roster.digest.hex()), self._seen.get(roster.fleet)
        if seen == found:
            return
        if seen is not None and found.number <= seen.number:
            raise RefusedError(Refusal.OTHER_ROSTER)
        self._seen[roster.fleet] = found
        write_private(self._path, msgspec.json.encode(self._seen, order="sorted"))
