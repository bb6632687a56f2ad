"""The second of two servers: adds up its shares, adds noise of its own, and hands out one total of a round.

Before it the public numbers, alike for leader, helper and clients: sizes, and what shares are bound to. Each server
adds all of the noise, on the lattice that their shares lie on.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, Final, Protocol, Self

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray, ResidueArray
from fedboard.common.boards.ed25519_keys import has_signed
from fedboard.common.checks import require_whole
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import ReplyKey
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource, NoiseStream
from fedboard.common.privacy.releases.noise_shares import lattice_draws
from fedboard.common.protocols.sums.residues import Packing, own_stddevs
from fedboard.common.protocols.two_server.bins import SEED_BYTES
from fedboard.common.protocols.two_server.shares import Layout, ShareSums, digest_of

NOISE_RATIO: Final = sqrt(2.0)
"""Both servers add all of the noise, and only one of them is counted."""


def lattice_noise(release: GaussianRelease, stream: NoiseStream, *, shift: int) -> IntArray:
    """The whole noise of a release on a lattice: ``rint(s_c / 2^shift N)``, s_c the deviation of column c.

    The sums lie on the lattice, so rounding commutes with adding them: a function of the Gaussian mechanism's
    output, whatever the deviation.

    Args:
        release: public.
        stream: draw number k is number k of the result, row by row. Secret.
        shift: the lattice is 2^shift grid units. Public.

    Returns:
        int64, shape (rows, width), lattice units.

    Raises:
        InputError: the noise does not fit 62 bits.
    """
    deviations = release.column_stddev() * 2.0**-shift
    if not deviations.max() < 2.0**58:
        raise InputError(f"release {release.name!r} has more noise than 64-bit integers hold")
    return lattice_draws(release, stream, deviations)


def helper_noise(packing: Packing, noise: NoiseSource) -> dict[str, IntArray]:
    """All of the helper's noise of a round, from streams of its own.

    Args:
        packing: of the round. Public.
        noise: of the helper; seeded, it gives other numbers than the leader's streams of the same seed. Secret.

    Returns:
        By release name: int64, shape (rows, width), units of 2^shift.
    """
    return {
        request.name: lattice_noise(
            request.release, noise.stream(f"helper {request.name}"), shift=packing.shifts[request.name]
        )
        for request in packing.requests
    }


_MOST_USERS, _MOST_ITEMS = 1 << 24, 1 << 16


class TwoServerRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all sides compute alike. Every field is public."""

    most_users: int
    """Users whose contributions the sums have room for."""
    most_items: int
    """Items that a user sends, whatever she has rated: padded to it, or cut to those of largest weight."""
    survivors: int
    """Fewest clients that make a sum."""

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InputError: a number out of range.
        """
        ranges = {"most_users": _MOST_USERS, "most_items": _MOST_ITEMS, "survivors": self.most_users}
        for name, most in ranges.items():
            require_whole(f"two-server's {name}", getattr(self, name), most=most)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Public: sizes, and the fewest clients."""
        return msgspec.structs.asdict(self)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """What a server states.

        Raises:
            InputError: not the parameters of this protocol.
        """
        try:
            return msgspec.convert(dict(parameters), cls)
        except msgspec.ValidationError as error:
            raise InputError(
                f"two-server has the settings most_users, most_items, survivors: {error}"
            ) from error

    def packing(self, requests: Sequence[Request]) -> Packing:
        """The round's numbers modulo 2^32, with room for the noise of both servers.

        Raises:
            InputError: no room.
        """
        noise = own_stddevs(requests, times=NOISE_RATIO)
        return Packing.of(requests, most_users=self.most_users, noise_stddevs=noise)

    def layout(self, about: bytes, requests: Sequence[Request]) -> Layout:
        """Where the round's numbers are.

        Raises:
            InputError: the protocol cannot carry these requests.
        """
        return Layout(about=about, packing=self.packing(requests), most_items=self.most_items)

    def bound(self, about: bytes) -> bytes:
        """What the helper's key and shares are bound to: the round and all parameters.

        A leader that tells the helper other parameters than clients, and so another scale of its noise, gets shares
        that the helper cannot open.
        """
        stated = json.dumps(dict(self.parameters), sort_keys=True).encode()
        return b"two-server\n" + hashlib.sha256(stated).hexdigest().encode() + b"\n" + about


_SIGNED = b"fedboard helper round key 2\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundKey:
    """The key of one round, and who vouches for it. Public."""

    key: bytes
    """What clients seal seeds to (``fedboard.common.messages.sealing``); its first byte says its length."""
    identity: bytes
    """Ed25519, 32 bytes: who the helper is."""
    signature: bytes
    """64 bytes: of the key and the round."""

    @staticmethod
    def sign(key: bytes, identity: Ed25519PrivateKey, *, bound: bytes) -> "RoundKey":
        """Vouch for a key."""
        return RoundKey(
            key=key,
            identity=identity.public_key().public_bytes_raw(),
            signature=identity.sign(_SIGNED + key + bound),
        )

    def require(self, *, bound: bytes, identity: bytes | None) -> None:
        """Check who vouches for the key.

        Args:
            bound: the round and the protocol's parameters.
            identity: who must; None for anybody.

        Raises:
            RefusedError: another helper, or one that did not sign this key for this round.
        """
        if identity is not None and identity != self.identity:
            raise RefusedError(Refusal.OTHER_HELPER)
        if not has_signed(self.identity, self.signature, _SIGNED + self.key + bound):
            raise RefusedError(Refusal.MALFORMED)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HelperPart:
    """What the helper gets of one client."""

    keys: NDArray[np.uint8]
    """uint8, shape (n_users, bytes of one user's keys); both servers have them."""
    sealed: bytes
    """Its seed and the digest of the keys, sealed to its round key."""


class Helper(Protocol):
    """The second server, as the first one reaches it."""

    def begin(self, about: bytes, requests: Sequence[Request], rules: TwoServerRules) -> RoundKey:
        """Begin a round; beginning it again gives the same key.

        Raises:
            RefusedError: it was answered before, is not one that the helper takes part in, or nobody answers.
        """
        ...

    def take(self, about: bytes, client: str, part: HelperPart) -> None:
        """Take one client's part; the same part of the same client may come again and changes nothing.

        Raises:
            RefusedError: it does not count; nothing has changed.
        """
        ...

    def total(self, about: bytes, clients: Sequence[str]) -> ResidueArray:
        """The helper's share of the sums over these clients, with its noise; uint32, in the packing's order.

        Raises:
            RefusedError: these are not the clients that it took, too few, or it was asked before.
        """
        ...


class HelperSession:
    """One round of the helper, in memory only."""

    def __init__(
        self,
        about: bytes,
        requests: Sequence[Request],
        rules: TwoServerRules,
        *,
        identity: Ed25519PrivateKey,
        noise: NoiseSource,
    ) -> None:
        """Begin.

        Args:
            about: the round.
            requests: of the round, by the helper's own reading of the board.
            rules: public; shares under other ones cannot be opened.
            identity: vouches for the round's key. Secret.
            noise: where the helper's noise comes from.

        Raises:
            InputError: the rules cannot carry these requests.
        """
        self._rules, self._noise, self._bound = rules, noise, rules.bound(about)
        self._layout = rules.layout(about, requests)
        self._sums = ShareSums(self._layout, party=1)
        self._secret = ReplyKey()
        self._taken: dict[str, bytes] = {}
        self._seeds: set[bytes] = set()
        self._users = 0
        self._over = False
        self.key = RoundKey.sign(self._secret.public, identity, bound=self._bound)

    def take(self, client: str, part: HelperPart) -> None:
        """Add one client's share.

        Raises:
            RefusedError: it does not count; nothing has changed.
        """
        if self._over:
            raise RefusedError(Refusal.LATE)
        if self._taken.get(client) == part.sealed:
            return
        content = self._secret.open(part.sealed, about=self._bound)
        seed = content[:SEED_BYTES]
        if content[SEED_BYTES:] != digest_of(part.keys):
            raise RefusedError(Refusal.MALFORMED)
        if client in self._taken or seed in self._seeds:  # one share under two names would count twice
            raise RefusedError(Refusal.DUPLICATE)
        if self._users + part.keys.shape[0] > self._rules.most_users:
            raise RefusedError(Refusal.TOO_MANY_USERS)
        self._sums.add(self._sums.read(part.keys), seed)
        self._taken[client] = part.sealed
        self._seeds.add(seed)
        self._users += part.keys.shape[0]

    def require_total(self, clients: Sequence[str]) -> None:
        """Whether the one total of the round may be of these clients.

        Raises:
            RefusedError: not the clients that it took, too few, or it is over.
        """
        if self._over:
            raise RefusedError(Refusal.ANSWERED_BEFORE)
        if sorted(clients) != sorted(self._taken):
            raise RefusedError(Refusal.UNKNOWN_NODE)
        if len(self._taken) < self._rules.survivors:
            raise RefusedError(Refusal.TOO_FEW)

    def total(self, clients: Sequence[str]) -> ResidueArray:
        """The helper's share with its noise, once.

        Raises:
            RefusedError: as for ``require_total``.
        """
        self.require_total(clients)
        self._over = True
        packing = self._layout.packing
        found: ResidueArray = self._sums.vector() + packing.flatten(helper_noise(packing, self._noise))
        return found


class LocalHelper:
    """A helper in this process: for simulations and tests, where nobody is kept from seeing both shares."""

    def __init__(self, noise: NoiseSource) -> None:
        """Make it, with an identity of its own.

        Args:
            noise: of the helper; a seeded source draws other noise than the leader's of the same seed.
        """
        self._noise, self._identity = noise, Ed25519PrivateKey.generate()
        self._sessions: dict[bytes, HelperSession] = {}
        self._over: set[bytes] = set()

    @property
    def identity(self) -> bytes:
        """Public half of its identity, 32 bytes."""
        return self._identity.public_key().public_bytes_raw()

    def begin(self, about: bytes, requests: Sequence[Request], rules: TwoServerRules) -> RoundKey:
        """See ``Helper``."""
        if about in self._over:
            raise RefusedError(Refusal.ANSWERED_BEFORE)
        if about not in self._sessions:
            self._sessions[about] = HelperSession(
                about, requests, rules, identity=self._identity, noise=self._noise
            )
        return self._sessions[about].key

    def take(self, about: bytes, client: str, part: HelperPart) -> None:
        """See ``Helper``."""
        self._session(about).take(client, part)

    def total(self, about: bytes, clients: Sequence[str]) -> ResidueArray:
        """See ``Helper``."""
        found = self._session(about).total(clients)
        self._over.add(about)
        del self._sessions[about]
        return found

    def _session(self, about: bytes) -> HelperSession:
        if about in self._over:
            raise RefusedError(Refusal.ANSWERED_BEFORE)
        if about not in self._sessions:
            raise RefusedError(Refusal.NO_SESSION)
        return self._sessions[about]
