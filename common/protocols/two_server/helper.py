"""The second of two servers: adds up its shares, adds noise of its own, and hands out one total of a round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from fedboard.common.arrays import ResidueArray
from fedboard.common.boards.ed25519_keys import has_signed
from fedboard.common.contribution import Request
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import ReplyKey
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocols.two_server.bins import SEED_BYTES
from fedboard.common.protocols.two_server.rules import TwoServerRules, helper_noise
from fedboard.common.protocols.two_server.shares import ShareSums, digest_of

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
