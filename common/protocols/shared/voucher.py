"""What a device brings to a protocol whose clients are vouched for: its identity, and whom it believes."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from fedboard.common.errors import InputError
from fedboard.common.keys.roster import IdentityKey, Roster
from fedboard.common.wire.refusals import Refusal, RefusedError


def admit_any(roster: Roster) -> None:
    """Any list that its authority has signed and that still holds."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Voucher:
    """A device's identity, and whom it believes about other devices."""

    identity: IdentityKey
    authority: bytes
    """Public key of the authority whose lists it takes, 32 bytes; pinned, whatever a server says."""
    admit: Callable[[Roster], None] = admit_any
    """Refuses, by ``RefusedError``, a list that is older than one that was seen."""
    clock: Callable[[], float] = time.time

    def roster(self, content: bytes) -> Roster:
        """The list of a session.

        Args:
            content: from a server that need not be honest.

        Raises:
            RefusedError: ``other-roster``: not signed by the authority, over, older than one that was seen, or one
                that does not name this device.
        """
        try:
            roster = Roster.read(content, authority=self.authority)
        except InputError:
            raise RefusedError(Refusal.OTHER_ROSTER) from None
        if roster.until < self.clock() or roster.place(self.identity.public) is None:
            raise RefusedError(Refusal.OTHER_ROSTER)
        self.admit(roster)
        return roster
