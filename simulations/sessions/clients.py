"""The clients of a simulated session: which users each hosts, what noise it draws, and when it is lost."""

from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from fedboard.common.arrays import BoolArray, IntArray
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.simulations.sessions.client_noise import client_noise

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
