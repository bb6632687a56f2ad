"""What masked vectors carry: exact sums here, sums with a share of the noise in distributed-dp."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Request
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.noise import NoiseSource
from fedboard.common.protocol import Given
from fedboard.common.protocols.coarse import coarse_sums
from fedboard.common.protocols.packing import Packing


class Carried(Protocol):
    """Turns what a client gives into residues, and the sum of residues back into sums."""

    def packing(self, requests: Sequence[Request]) -> Packing:
        """How the requests become one vector; the same on server and clients.

        Raises:
            InputError: they leave no room modulo 2^32.
            PrivacyError: their sensitivity does not allow it.
        """
        ...

    def numbers(self, given: Given, noise: NoiseSource) -> NDArray[np.uint32]:
        """One client's vector, uint32, shape (size,). Private.

        Args:
            given: what the client gives. Private.
            noise: source of the client's own noise.

        Raises:
            PrivacyError: a row breaks its bound, or there are more rows than there is room for.
        """
        ...

    def plausible(self, packing: Packing, sums: Mapping[str, IntArray]) -> bool:
        """Whether honest clients can have made these sums; what ``packing.unflatten`` gave. Private."""
        ...

    def noise_shares(self, survivors: int) -> int:
        """How many honest shares of the noise are in a sum over so many clients at least."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactNumbers:
    """The coarse sums as they are; the server adds the noise."""

    most_users: int
    backend: str = "numpy"

    def packing(self, requests: Sequence[Request]) -> Packing:
        """Room for all users, without noise."""
        return Packing.of(requests, most_users=self.most_users)

    def numbers(self, given: Given, noise: NoiseSource) -> NDArray[np.uint32]:
        """The coarse sums; ``noise`` is not used.

        Raises:
            PrivacyError: a row breaks its bound, or there are more rows than there is room for.
        """
        require_room(given, self.most_users)
        packing = self.packing(given.requests)
        return packing.flatten(
            coarse_sums(given.contribution, given.requests, packing.shifts, backend=self.backend)
        )

    def plausible(self, packing: Packing, sums: Mapping[str, IntArray]) -> bool:
        """Whether ``most_users`` honest users can have made them."""
        return packing.plausible(sums, n_users=self.most_users)

    def noise_shares(self, survivors: int) -> int:
        """None: the sums are exact."""
        return 0


def require_room(given: Given, most_users: int) -> None:
    """Refuse more rows than the sums of all clients together have room for.

    Raises:
        PrivacyError: there are more.
    """
    if given.contribution.n_users > most_users:
        raise PrivacyError(
            f"{given.contribution.n_users} rows, and the sums of all clients have room for {most_users}; "
            "nothing was sent"
        )


__all__ = ["Carried", "ExactNumbers", "require_room"]
