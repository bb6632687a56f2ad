"""Noise that simulated clients draw themselves: one seed for each, the same in every runtime.

Identities of simulated devices, and a list of them: whoever reads this file has all of their keys.

The clients of a simulated session: which users each hosts, what noise it draws, and when it is lost.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.arrays import BoolArray, IntArray
from fedboard.common.boards.roster import IdentityKey, Roster, RosterAuthority
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.properties import authority_of, can_be_vouched
from fedboard.common.protocols.sessions import Voucher

_SEED_BYTES = 8


def client_seed(seed: int, version: int, client: int) -> int:
    """The seed of one client's noise in one round: SHA-256 of all three, so that no two clients share a draw.

    Args:
        seed: of the run.
        version: of the board that is asked about.
        client: its number, from 0.
    """
    text = f"fedboard client noise\0{seed}\0{version}\0{client}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:_SEED_BYTES], "little")


def client_noise(seed: int, version: int, client: int) -> SeededNoise:
    """What a simulated client draws from in one round. Not private."""
    return SeededNoise(client_seed(seed, version, client))


SIMULATED = "simulation"
"""What a simulation gives as ``vouched_by``, in the place of somebody who vouches for devices."""
_LASTS_SECONDS = 10 * 365 * 86_400


def with_simulated_authority(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A protocol's settings, in which the authority of all simulations has the place of ``simulation``.

    Raises:
        InputError: ``vouched_by`` names somebody; nobody vouches for devices that are not there.
    """
    found, asked = dict(settings), settings.get("vouched_by")
    authority = _authority().public.hex()
    if asked in (None, "", authority):
        return found
    if asked != SIMULATED:
        raise InputError(f"vouched_by must be {SIMULATED!r} in a simulation, got {asked!r}")
    return {**found, "vouched_by": authority}


def among_simulated(protocol: AggregationProtocol, clients: int) -> AggregationProtocol:
    """The same protocol on the server, among so many simulated devices, where it wants any vouched for.

    Raises:
        InputError: the protocol was not sized for so many.
    """
    if authority_of(protocol) is None or not can_be_vouched(protocol):
        return protocol
    return protocol.among(simulated_roster(clients))


def as_simulated(protocol: AggregationProtocol, client: int) -> AggregationProtocol:
    """The same protocol on one of the simulated devices, where it wants any vouched for."""
    if authority_of(protocol) is None or not can_be_vouched(protocol):
        return protocol
    return protocol.vouched(Voucher(identity=_identity(client), authority=_authority().public))


@lru_cache(maxsize=2)
def simulated_roster(clients: int) -> Roster:
    """The list of so many simulated devices."""
    keys = [_identity(number).public for number in range(clients)]
    return _authority().sign(keys, fleet=SIMULATED, number=1, seconds=_LASTS_SECONDS)


@lru_cache(maxsize=1 << 16)
def _identity(number: int) -> IdentityKey:
    return IdentityKey(_key(f"device {number}"))


@lru_cache(maxsize=1)
def _authority() -> RosterAuthority:
    return RosterAuthority(_key("authority"))


def _key(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(
        hashlib.sha256(f"fedboard simulated {name}".encode()).digest()
    )


_STAYS, _AT_ONCE, _GIVING, _AFTERWARDS = -1, 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """All users, cut into consecutive clients. Public."""

    bounds: IntArray
    """int64, shape (n_clients + 1,): client k hosts users ``bounds[k]:bounds[k + 1]``."""

    @staticmethod
    def of(n_users: int, n_clients: int | None) -> "Clients":
        """Cut as evenly as it goes; None makes every user a client.

        Raises:
            InputError: more clients than users, or none.
        """
        wanted = n_users if n_clients is None else n_clients
        if not 1 <= wanted <= n_users:
            raise InputError(f"clients must be a whole number in 1..{n_users} (the users), got {wanted}")
        return Clients(bounds=np.arange(wanted + 1, dtype=np.int64) * n_users // wanted)

    @property
    def n_clients(self) -> int:
        """How many there are."""
        return self.bounds.size - 1

    @property
    def names(self) -> tuple[str, ...]:
        """Identities."""
        return tuple(map(self.name, range(self.n_clients)))

    def name(self, number: int) -> str:
        """Identity of a client."""
        return f"client-{number}"

    def users(self, number: int) -> tuple[int, int]:
        """First user, and one past the last."""
        return int(self.bounds[number]), int(self.bounds[number + 1])

    def users_of(self, clients: BoolArray) -> BoolArray:
        """Which users these clients host; bool, shape (n_users,)."""
        hosted: BoolArray = np.repeat(clients, np.diff(self.bounds))
        return hosted


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Which clients are lost in a round, and where in the session. Public: simulation only."""

    places: IntArray
    """int64, shape (n_clients,): -1 stays; 0 is lost at the first step, 1 when it should give its contribution, 2
    after that."""

    @staticmethod
    def draw(n_clients: int, share: float, *, seed: int, version: int) -> "Losses":
        """``floor(share n_clients)`` clients, a third of them at each place on average."""
        key = sha256(f"fedboard clients that are lost\0{seed}\0{version}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(key, "little"))
        places = np.full(n_clients, _STAYS, dtype=np.int64)
        lost = rng.choice(n_clients, size=int(share * n_clients), replace=False)
        places[lost] = rng.integers(_AT_ONCE, _AFTERWARDS + 1, lost.size)
        return Losses(places=places)

    def gone(self, *, first: bool, asks: bool, given: bool) -> BoolArray:
        """Who does not reply to a step; bool, shape (n_clients,).

        Where the first step asks for contributions already, all that are lost are lost there.

        Args:
            first: whether it is the session's first step.
            asks: whether it asks for contributions.
            given: whether an earlier one did.
        """
        reached = _AFTERWARDS if given or (first and asks) else _GIVING if asks else _AT_ONCE
        gone: BoolArray = (self.places != _STAYS) & (self.places <= reached)
        return gone

    @property
    def staying(self) -> int:
        """Clients that are not lost."""
        return int(np.count_nonzero(self.places == _STAYS))


def noise_of(drawn: NoiseSource, *, version: int, client: int) -> NoiseSource:
    """A client's own source: fresh keys where the run's noise is secure, else one that follows from its seed."""
    if isinstance(drawn, SeededNoise):
        return client_noise(drawn.seed, version, client)
    return SecureNoise()
