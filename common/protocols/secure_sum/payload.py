"""What masked vectors carry: exact sums here, sums with a share of the noise in distributed-dp."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Request
from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import Given
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.sums.truncated import coarse_sums

_log = logging.getLogger(__name__)


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

    def admitted(self, packing: Packing, sums: Mapping[str, IntArray]) -> Mapping[str, IntArray] | None:
        """What ``packing.unflatten`` gave, as far as honest clients can have made it. Private.

        None gives the round up, which everybody sees: only sums with all their noise may decide about that.
        """
        ...

    def residue_bits(self, packing: Packing) -> Mapping[str, int]:
        """By release name, bits of the modulus of sums that get their noise later; ``BookedRelease.publish``."""
        ...

    def noise_shares(self, survivors: int) -> int:
        """How many honest shares of the noise are in a sum over so many clients at least."""
        ...

    @property
    def noise_ratio(self) -> float:
        """Deviation of all noise in a sum over the booked one, at most. Public, so not of who stayed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactNumbers:
    """The coarse sums as they are; the server adds the noise."""

    most_users: int
    backend: str = "numpy"

    def packing(self, requests: Sequence[Request]) -> Packing:
        """Room for all users and for the noise, which is added to residues."""
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

    def admitted(self, packing: Packing, sums: Mapping[str, IntArray]) -> Mapping[str, IntArray]:
        """The sums, whatever they are; the log says where honest clients cannot have made them.

        They are exact, so nobody else may learn that: a client could add just so much that it tells how large the
        others' sum is.
        """
        if not packing.plausible(sums, n_users=self.most_users):
            _log.warning(
                "the sums are larger than honest clients can have made them; the board may be spoilt"
            )
        return sums

    def residue_bits(self, packing: Packing) -> dict[str, int]:
        """All sums are residues until they have their noise."""
        return packing.residue_bits

    def noise_shares(self, survivors: int) -> int:
        """None: the sums are exact."""
        return 0

    @property
    def noise_ratio(self) -> float:
        """The server adds what it books."""
        return 1.0


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
