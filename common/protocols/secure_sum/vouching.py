"""What is signed in a masked sum among clients that are vouched for: keys, and the set of survivors.

Reference: Bonawitz et al. (2017), doi:10.1145/3133956.3133982, section 6.2 (signed keys, consistency check).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray
from fedboard.common.keys.ed25519_keys import has_signed
from fedboard.common.keys.roster import SIGNATURE_BYTES, Roster
from fedboard.common.protocols.secure_sum.advertised import ADVERTISED_BYTES, Advertised
from fedboard.common.protocols.shared.voucher import Voucher
from fedboard.common.wire.refusals import Refusal, RefusedError

PLACE_BYTES = 4
VOUCHED_BYTES = ADVERTISED_BYTES + PLACE_BYTES + SIGNATURE_BYTES
_KEYS, _SET = b"fedboard masked sum keys 1\0", b"fedboard masked sum survivors 1\0"


@dataclass(frozen=True, slots=True)
class Vouched:
    """What a client advertises, signed by its identity. Public."""

    content: bytes
    """164 bytes: ``Advertised``, the client's place on the list (uint32, little-endian), and its signature."""

    @staticmethod
    def of(keys: Advertised, voucher: Voucher, roster: Roster, *, session: bytes) -> "Vouched":
        """Sign for what one advertises.

        Args:
            keys: of this session.
            voucher: of the device, which is on the list.
            roster: the list.
            session: 32 bytes that no other session has.
        """
        place = roster.place(voucher.identity.public)
        assert place is not None  # ``Voucher.roster`` has looked
        signature = voucher.identity.sign(_KEYS + session + roster.digest + keys.content)
        return Vouched(keys.content + place.to_bytes(PLACE_BYTES, "little") + signature)

    @property
    def keys(self) -> Advertised:
        """What is vouched for."""
        return Advertised(self.content[:ADVERTISED_BYTES])

    @property
    def place(self) -> int:
        """On the list."""
        return int.from_bytes(self.content[ADVERTISED_BYTES:-SIGNATURE_BYTES], "little")

    def require(self, roster: Roster, *, session: bytes) -> None:
        """Refuse keys that their owner has not signed.

        Raises:
            RefusedError: ``bad-signature``, also where nobody stands at that place.
        """
        signed = _KEYS + session + roster.digest + self.keys.content
        signature = self.content[-SIGNATURE_BYTES:]
        if self.place >= len(roster.keys) or not has_signed(roster.keys[self.place], signature, signed):
            raise RefusedError(Refusal.BAD_SIGNATURE)


def quorum(devices: int, colluding: int) -> int:
    """Confirmations of one set without which nobody opens anything: ``floor((devices + colluding) / 2) + 1``.

    Of two different sets of one session each honest device confirms at most one, so both together have at most
    ``devices + colluding`` confirmations: fewer than two quorums.

    Args:
        devices: on the list.
        colluding: of them, at most.
    """
    return (devices + colluding) // 2 + 1


def survivors_statement(
    session: bytes, roster: Roster, *, members: BoolArray, there: BoolArray, stayed: BoolArray
) -> bytes:
    """What a client signs to confirm the graph and the set of survivors that it was told.

    The graph follows from the session and the members, see ``masking.neighbours.ring``.

    Args:
        session: 32 bytes that no other session has; run, round, board and parameters are in it.
        roster: the list of devices.
        members: bool, shape (devices,): who advertised keys, by place on the list.
        there: likewise, who was masked with.
        stayed: likewise, whose masked numbers are in the sum.
    """
    sets = b"".join(to_bits(marked).tobytes() for marked in (members, there, stayed))
    return _SET + session + roster.digest + sets


def to_bits(marked: BoolArray) -> NDArray[np.uint8]:
    """A set of places on a list, uint8, shape (ceil(n / 8),)."""
    return np.packbits(marked, bitorder="little")


def from_bits(bits: NDArray[np.uint8], devices: int) -> BoolArray:
    """The set again, bool, shape (devices,).

    Raises:
        RefusedError: bits are set beyond the list.
    """
    marked = np.unpackbits(bits, bitorder="little").astype(np.bool_)
    if marked[devices:].any():
        raise RefusedError(Refusal.MALFORMED)
    found: BoolArray = marked[:devices]
    return found


def bits_bytes(devices: int) -> int:
    """Length of ``to_bits``."""
    return -(-devices // 8)
