"""What the masked vectors of distributed-dp carry: a client's sums with its share of the noise."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Request
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.noise_shares import NoiseShares
from fedboard.common.protocol import Given
from fedboard.common.protocols.distributed_dp.rules import SharingRules
from fedboard.common.protocols.secure_sum.payload import require_room
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.sums.truncated import coarse_sums


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedNumbers:
    """Coarse sums with the client's share of the noise."""

    rules: SharingRules
    backend: str = "numpy"

    @property
    def shares(self) -> NoiseShares:
        """What each client draws."""
        return NoiseShares(least=self.rules.honest)

    def packing(self, requests: Sequence[Request]) -> Packing:
        """Room for all users and for the noise of all clients.

        Raises:
            InputError: they leave no room modulo 2^32, or the lattice is too coarse for the shares.
            PrivacyError: their sensitivity does not allow it.
        """
        packing = Packing.of(
            requests, most_users=self.rules.most_users, noise_stddevs=self._stddevs(requests)
        )
        for request in requests:
            self.shares.require_smooth(request.release, shift=packing.shifts[request.name])
        return packing

    def numbers(self, given: Given, noise: NoiseSource) -> NDArray[np.uint32]:
        """The coarse sums and one share of the noise, uint32, shape (size,). Private.

        Raises:
            PrivacyError: a row breaks its bound, or there are more rows than there is room for.
        """
        require_room(given, self.rules.most_users)
        packing = self.packing(given.requests)
        sums = coarse_sums(given.contribution, given.requests, packing.shifts, backend=self.backend)
        for request in given.requests:
            stream, shift = noise.stream(request.name), packing.shifts[request.name]
            sums[request.name] += self.shares.draw(request.release, stream, shift=shift)
        return packing.flatten(sums)

    def admitted(self, packing: Packing, sums: Mapping[str, IntArray]) -> Mapping[str, IntArray] | None:
        """The sums, if honest clients can have made them; they hold their noise, so that may be told."""
        stddevs = self._stddevs(packing.requests)
        plausible = packing.plausible(sums, n_users=self.rules.most_users, noise_stddevs=stddevs)
        return sums if plausible else None

    def residue_bits(self, packing: Packing) -> Mapping[str, int]:
        """None: the sums had their noise before they were reduced."""
        return {}

    def noise_shares(self, survivors: int) -> int:
        """How many honest shares are in a sum over so many clients at least."""
        return self.rules.honest_among(survivors)

    @property
    def noise_ratio(self) -> float:
        """If everybody stays."""
        return self.rules.noise_ratio

    def _stddevs(self, requests: Sequence[Request]) -> dict[str, float]:
        everybody = math.sqrt(self.rules.most_clients)
        return {r.name: everybody * self.shares.share_stddev(r.release) for r in requests}
