"""A client's checks on a server that may lie: are those real clients, is this the graph, is there one set?

Reference: Bonawitz et al. (2017), doi:10.1145/3133956.3133982, figure 4 with the parts for active adversaries;
Bell, Bonawitz, Gascon, Lepoint and Raykova (2020), doi:10.1145/3372297.3417885, section 4 (the graph).

And what the server keeps of such clients: places on the list, keys, signatures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray
from fedboard.common.boards.ed25519_keys import has_signed
from fedboard.common.boards.roster import SIGNATURE_BYTES, Roster
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.secure_sum.members import (
    Advertised,
    Vouched,
    from_bits,
    neighbours,
    ring,
    survivors_statement,
    to_bits,
)
from fedboard.common.protocols.secure_sum.messages import table
from fedboard.common.protocols.secure_sum.rules import SumRules
from fedboard.common.protocols.sessions import Voucher


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class VouchedSession:
    """One session among the clients of a list, as one of them sees it."""

    voucher: Voucher
    roster: Roster
    rules: SumRules
    session: bytes

    @staticmethod
    def begin(voucher: Voucher | None, rules: SumRules, session: bytes, content: bytes) -> "VouchedSession":
        """Take a server's list, or the one that was taken before.

        Args:
            voucher: of the device; None where it has none.
            rules: as the server states them.
            session: 32 bytes that no other session has.
            content: the list, from a server that need not be honest.

        Raises:
            RefusedError: ``other-roster``, see ``Voucher.roster``, or the rules name another authority than the
                device; ``bad-protocol`` where the rules do not fit the list.
        """
        if voucher is None or voucher.authority.hex() != rules.vouched_by:
            raise RefusedError(Refusal.OTHER_ROSTER)
        roster = voucher.roster(content)
        rules.require_list(len(roster.keys))
        return VouchedSession(voucher=voucher, roster=roster, rules=rules, session=session)

    @property
    def devices(self) -> int:
        """On the list."""
        return len(self.roster.keys)

    @property
    def own(self) -> int:
        """The place of the device itself on the list."""
        place = self.roster.place(self.voucher.identity.public)
        assert place is not None  # ``Voucher.roster`` has looked
        return place

    def signed(self, keys: Advertised) -> bytes:
        """What one advertises, signed."""
        return Vouched.of(keys, self.voucher, self.roster, session=self.session).content

    def places_of(self, rows: NDArray[np.uint8], members: NDArray[np.uint8], *, clients: int) -> list[int]:
        """The places of one's neighbours on the list, which must be those of the graph, and have signed their keys.

        Args:
            rows: uint8, shape (size, 164): what the server says that they advertise.
            members: the set of all who take part, as ``to_bits`` makes it.
            clients: how many they are, as the server says.

        Raises:
            RefusedError: other neighbours than the graph of these members has, or keys that they have not signed.
        """
        marked = from_bits(members, self.devices)
        if int(marked.sum()) != clients or not marked[self.own]:
            raise RefusedError(Refusal.MALFORMED)
        order = ring(self.session, [self.roster.keys[place] for place in np.flatnonzero(marked).tolist()])
        at = order.index(self.voucher.identity.public)
        expected = {self.roster.place(key) for key in neighbours(order, at, len(rows))}
        told = [Vouched(row.tobytes()) for row in rows]
        if {vouched.place for vouched in told} != expected:
            raise RefusedError(Refusal.NOT_CONFIRMED)
        for vouched in told:
            vouched.require(self.roster, session=self.session)
        return [vouched.place for vouched in told]

    def set_of(self, members: bytes, there: NDArray[np.uint8], stayed: NDArray[np.uint8]) -> "ToldSet":
        """What the server says of everybody, once it is sound by itself.

        Args:
            members: who takes part, as it was said before.
            there: who was masked with.
            stayed: whose masked numbers are in the sum.

        Raises:
            RefusedError: somebody stayed who was not there, or this device is not in the sum.
        """
        sets = [np.frombuffer(members, dtype=np.uint8), there, stayed]
        of_all, of_there, of_stayed = (from_bits(bits, self.devices) for bits in sets)
        if (of_there & ~of_all).any() or (of_stayed & ~of_there).any() or not of_stayed[self.own]:
            raise RefusedError(Refusal.MALFORMED)
        statement = survivors_statement(
            self.session, self.roster, members=of_all, there=of_there, stayed=of_stayed
        )
        return ToldSet(there=of_there, stayed=of_stayed, statement=statement)

    def require_confirmed(
        self, told: "ToldSet", signers: NDArray[np.uint8], signatures: NDArray[np.uint8]
    ) -> None:
        """Refuse to go on unless enough clients in the sum have signed what this one was told.

        Args:
            told: what it was told.
            signers: who has signed, as ``to_bits`` makes it; each counts once.
            signatures: uint8, shape (n, 64): theirs, by place on the list.

        Raises:
            RefusedError: ``not-confirmed``.
        """
        marked = from_bits(signers, self.devices)
        places: Sequence[int] = np.flatnonzero(marked).tolist()
        if (marked & ~told.stayed).any() or len(places) != len(signatures):
            raise RefusedError(Refusal.NOT_CONFIRMED)
        if len(places) < self.rules.quorum(self.devices):
            raise RefusedError(Refusal.NOT_CONFIRMED)
        for place, signature in zip(places, signatures, strict=True):
            if not has_signed(self.roster.keys[place], signature.tobytes(), told.statement):
                raise RefusedError(Refusal.NOT_CONFIRMED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldSet:
    """Who is in a sum, as a client was told; by place on the list."""

    there: BoolArray
    """bool, shape (devices,): who was masked with."""
    stayed: BoolArray
    """Likewise, whose masked numbers are in the sum."""
    statement: bytes
    """What is signed to confirm it."""


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

    def sets(self, names: Sequence[str], **marked: BoolArray | None) -> dict[str, NDArray[np.uint8]]:
        """Sets of clients, by name, as clients are told of them; of each as for ``places``."""
        return {name: to_bits(self.places(names, clients)) for name, clients in marked.items()}

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
