"""Who is in a masked sum: secrets, what is advertised, what is signed, and who is joined to whom.

What is signed among clients that are vouched for: keys, and the set of survivors.

Reference: Bonawitz et al. (2017), doi:10.1145/3133956.3133982, section 6.2 (signed keys, consistency check).

What a client keeps secret in one session, what it tells about it, and its masks. One mask is its own; the mask
with a neighbour is the same for both, added by one and subtracted by the other, so that it cancels.

Who is a neighbour: clients are put in an order that nobody chooses (a hash of the session and of every advertised
key), as a ring, and each is joined to the k / 2 next ones on either side. ``Graph`` is what the server knows of one
session: who is who.

Reference: Bell, Bonawitz, Gascon, Lepoint and Raykova (2020), doi:10.1145/3372297.3417885, section 3 (the graph).
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import BoolArray, IndexArray
from fedboard.common.boards.ed25519_keys import has_signed
from fedboard.common.boards.roster import SIGNATURE_BYTES, Roster
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.secure_sum.masking import (
    KEY_BYTES,
    PUBLIC_BYTES,
    SEED_BYTES,
    KeyPair,
    Mask,
    derive_key,
    require_usable,
)
from fedboard.common.protocols.secure_sum.rules import Neighbourhood
from fedboard.common.protocols.sessions import Voucher

ADVERTISED_BYTES = 2 * PUBLIC_BYTES + KEY_BYTES


@dataclass(frozen=True, slots=True)
class Advertised:
    """What everybody who needs it is told of a client. Public."""

    content: bytes
    """96 bytes: public key for masks, public key for shares, commitment to the seed of the self-mask."""

    @property
    def mask_key(self) -> bytes:
        """Public half of the pair for masks."""
        return self.content[:PUBLIC_BYTES]

    @property
    def share_key(self) -> bytes:
        """Public half of the pair for encrypting shares."""
        return self.content[PUBLIC_BYTES : 2 * PUBLIC_BYTES]

    @property
    def commitment(self) -> bytes:
        """``commitment_to`` the seed of the self-mask."""
        return self.content[2 * PUBLIC_BYTES :]

    @property
    def identity(self) -> bytes:
        """What the client is called in this session, 32 bytes; only whoever has the secrets can act under it."""
        return hashlib.sha256(self.content).digest()

    def require_usable(self) -> None:
        """Refuse keys that nobody can agree on a secret with.

        Raises:
            RefusedError: a key is a point of low order.
        """
        require_usable(self.mask_key)
        require_usable(self.share_key)


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """A client's secrets of one session; fresh from the operating system for each."""

    self_seed: bytes
    """16 bytes: its self-mask follows from it."""
    mask_seed: bytes
    """16 bytes: its private key for masks follows from it."""
    share_private: bytes
    """32 bytes: private key for encrypting shares; it is never shared."""

    def __repr__(self) -> str:
        """Nothing of it."""
        return "Secrets()"

    @staticmethod
    def fresh() -> "Secrets":
        """Secrets that nobody else has."""
        return Secrets(
            self_seed=os.urandom(SEED_BYTES),
            mask_seed=os.urandom(SEED_BYTES),
            share_private=os.urandom(KEY_BYTES),
        )

    def mask_pair(self, session: bytes) -> KeyPair:
        """The pair for masks."""
        return KeyPair.from_seed(self.mask_seed, session=session)

    def share_pair(self) -> KeyPair:
        """The pair for encrypting shares."""
        return KeyPair.of(self.share_private)

    def advertised(self, session: bytes) -> Advertised:
        """What is told of them."""
        keys = self.mask_pair(session).public + self.share_pair().public
        return Advertised(keys + commitment_to(self.self_seed, session=session))


def commitment_to(self_seed: bytes, *, session: bytes) -> bytes:
    """32 bytes that hold the seed's owner to it and say nothing about the mask that follows from it.

    Args:
        self_seed: 16 bytes. Secret.
        session: 32 bytes that no other session has.
    """
    return derive_key(self_seed, use=b"commitment", session=session)


def self_mask(self_seed: bytes, *, session: bytes) -> Mask:
    """A client's own mask, which it adds.

    Args:
        self_seed: 16 bytes. Secret.
        session: 32 bytes that no other session has.
    """
    return Mask(key=derive_key(self_seed, use=b"self-mask", session=session), added=True)


def pair_mask(pair: KeyPair, own: bytes, peer: Advertised, *, session: bytes) -> Mask:
    """The mask with one neighbour: the same for both, added by the smaller identity and subtracted by the other.

    Args:
        pair: the client's own pair for masks. Secret.
        own: its identity, 32 bytes.
        peer: what the neighbour advertised.
        session: 32 bytes that no other session has.

    Raises:
        RefusedError: the neighbour's key is of low order.
    """
    parties = b"".join(sorted((own, peer.identity)))
    key = derive_key(pair.shared(peer.mask_key), use=b"pair-mask", session=session, parties=parties)
    return Mask(key=key, added=own < peer.identity)


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


def survivors_statement(
    session: bytes, roster: Roster, *, members: BoolArray, there: BoolArray, stayed: BoolArray
) -> bytes:
    """What a client signs to confirm the graph and the set of survivors that it was told.

    The graph follows from the session and the members, see ``ring``.

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


def ring(session: bytes, identities: Sequence[bytes]) -> list[bytes]:
    """The clients in the order of the ring.

    Args:
        session: 32 bytes that no other session has.
        identities: 32 bytes each, of all clients in any order; no two the same.
    """
    everybody = hashlib.sha256(session + b"".join(sorted(identities))).digest()
    return sorted(identities, key=lambda identity: hashlib.sha256(everybody + identity).digest())


def neighbours(order: Sequence[bytes], place: int, size: int) -> list[bytes]:
    """Those joined to the client at this place of the ring, sorted by identity.

    Args:
        order: as ``ring`` gives it.
        place: of the client.
        size: k, even or ``len(order) - 1``.
    """
    if size == len(order) - 1:
        return sorted(other for other in order if other != order[place])
    steps = (*range(-(size // 2), 0), *range(1, size // 2 + 1))
    return sorted(order[(place + step) % len(order)] for step in steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The clients that advertised keys, numbered in the order of their identities. Public to the server."""

    names: tuple[str, ...]
    """By number."""
    advertised: tuple[Advertised, ...]
    """By number."""
    joined: IndexArray
    """int32, shape (n, k): the numbers of each client's neighbours, ascending."""
    around: Neighbourhood

    @staticmethod
    def of(
        session: bytes,
        keys: Mapping[str, Advertised],
        around: Neighbourhood,
        identities: Mapping[str, bytes] | None = None,
    ) -> "Graph":
        """The ring of these clients.

        Args:
            session: 32 bytes that no other session has.
            keys: what each advertised; no two the same.
            around: the size of a neighbourhood.
            identities: by client, what the ring is made of; None for what follows from its keys. Where clients are
                vouched for it is the key of the list, so that each of them can make the ring itself.
        """
        members = sorted((advertised.identity, name) for name, advertised in keys.items())
        of_ring = {name: advertised.identity for name, advertised in keys.items()}
        of_ring = of_ring if identities is None else {name: identities[name] for name in keys}
        number = {of_ring[name]: place for place, (_, name) in enumerate(members)}
        joined = np.empty((len(members), around.size), dtype=np.int32)
        order = ring(session, list(of_ring.values()))
        for place, identity in enumerate(order):
            joined[number[identity]] = sorted(
                number[other] for other in neighbours(order, place, around.size)
            )
        names = tuple(name for _, name in members)
        advertised = tuple(keys[name] for name in names)
        return Graph(names=names, advertised=advertised, joined=joined, around=around)

    def place(self, of: int, among: int) -> int:
        """At which place of one client's neighbours another one stands."""
        return int(np.searchsorted(self.joined[among], of))

    def places(self, of: int) -> IndexArray:
        """At which place of each of its neighbours' neighbours a client stands; int32, shape (k,)."""
        return np.array([self.place(of, among) for among in self.joined[of]], dtype=np.int32)

    def well_joined(self, there: BoolArray) -> BoolArray:
        """Which of those who are there can go on: enough of their neighbours can, too.

        Args:
            there: bool, shape (n,).
        """
        while True:
            left: BoolArray = there & (there[self.joined].sum(axis=1) >= self.around.needed)
            if np.array_equal(left, there):
                return left
            there = left
