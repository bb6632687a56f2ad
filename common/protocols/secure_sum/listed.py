"""What the server of a masked sum keeps of devices that are vouched for: places on the list, keys, signatures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray
from fedboard.common.keys.ed25519_keys import has_signed
from fedboard.common.keys.roster import SIGNATURE_BYTES, Roster
from fedboard.common.protocols.secure_sum.messages import table
from fedboard.common.protocols.secure_sum.vouching import Vouched, survivors_statement, to_bits
from fedboard.common.wire.refusals import Refusal, RefusedError


@dataclass(slots=True, kw_only=True, repr=False)
class ListedDevices:
    """The devices of a list in one session. It checks what they sign so that one of them cannot stop all others."""

    roster: Roster
    session: bytes
    place: dict[str, int] = field(default_factory=dict)
    """On the list, by client; of those who advertised keys."""
    advertised: dict[str, bytes] = field(default_factory=dict)
    """What each advertised, with its signature."""
    signatures: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    """Of the set of survivors, by place on the list."""
    statement: bytes = b""
    """What is signed, once it is known who stayed."""
    _taken: set[int] = field(default_factory=set)

    @property
    def devices(self) -> int:
        """On the list."""
        return len(self.roster.keys)

    @property
    def identities(self) -> Mapping[str, bytes]:
        """Key on the list, by client."""
        return {client: self.roster.keys[place] for client, place in self.place.items()}

    def admit(self, client: str, content: bytes) -> None:
        """Take what a client advertises.

        Raises:
            RefusedError: the device at this place has not signed it, or is there under another name.
        """
        vouched = Vouched(content)
        vouched.require(self.roster, session=self.session)
        if vouched.place in self._taken:
            raise RefusedError(Refusal.DUPLICATE)
        self._taken.add(vouched.place)
        self.place[client], self.advertised[client] = vouched.place, content

    def places(self, names: Sequence[str], marked: BoolArray | None) -> BoolArray:
        """A set of clients as a set of places, bool, shape (devices,).

        Args:
            names: of all clients, by number.
            marked: bool, shape (clients,), by number; None for all of them.
        """
        found = np.zeros(self.devices, dtype=np.bool_)
        for number, name in enumerate(names):
            found[self.place[name]] = marked is None or marked[number]
        return found

    def ask_to_confirm(self, names: Sequence[str], there: BoolArray, stayed: BoolArray) -> None:
        """Fix the set that is to be confirmed."""
        sets = [self.places(names, marked) for marked in (None, there, stayed)]
        self.statement = survivors_statement(
            self.session, self.roster, members=sets[0], there=sets[1], stayed=sets[2]
        )

    def confirm(self, client: str, signature: NDArray[np.uint8]) -> None:
        """Take a confirmation.

        Raises:
            RefusedError: it is not of this set, or not this client's; the others need not know why it is out.
        """
        place = self.place[client]
        if not has_signed(self.roster.keys[place], signature.tobytes(), self.statement):
            raise RefusedError(Refusal.BAD_SIGNATURE)
        self.signatures[place] = signature.copy()

    def confirmations(self, count: int) -> dict[str, NDArray[np.uint8]]:
        """So many signatures, and whose they are, as clients are told of them."""
        first = sorted(self.signatures)[:count]
        signers = np.zeros(self.devices, dtype=np.bool_)
        signers[first] = True
        rows = [self.signatures[place].tobytes() for place in first]
        return {"signers": to_bits(signers), "signatures": table(rows, SIGNATURE_BYTES)}
