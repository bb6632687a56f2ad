"""Distributed differential privacy: every client adds a share of the noise inside a secure sum.

What the server takes the masks off is a sum that has its noise already. Any ``honest`` shares make up the noise
that is booked, and there is no sum with fewer: whoever drops out, the guarantee is that of the smallest set of
survivors. When more stay, there is more noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.checks import require_whole, whole
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.noise_shares import NoiseShares, SharedNoise
from fedboard.common.protocol import Given, NoiseAt, Trust
from fedboard.common.protocols.properties import Card, SumsLeft
from fedboard.common.protocols.secure_sum.protocol import (
    AUDITED_WITH,
    MEANINGS,
    OPTIONAL,
    MaskedSum,
    masked_trust,
    neighbours,
)
from fedboard.common.protocols.secure_sum.rules import (
    MOST_CLIENTS,
    Neighbourhood,
    SumRules,
    require_known,
    share_of,
)
from fedboard.common.protocols.secure_sum.server import SecureSumServer
from fedboard.common.protocols.sums.residues import Packing


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingRules(SumRules):
    """The public numbers of a secure sum whose clients add the noise."""

    honest: int
    """Shares of the noise in every sum that nobody else knows; ``honest + floor(colluding most_clients) <=
    survivors``.
    """
    most_clients: int
    """Clients of a session at most; the sums have room for the noise of so many."""

    def __post_init__(self) -> None:
        """Check every number.

        Raises:
            InputError: one is out of range, or a sum could hold fewer honest shares than are stated.
        """
        SumRules.__post_init__(self)
        require_whole("most_clients", self.most_clients, least=self.survivors, most=MOST_CLIENTS)
        if not whole(1, self.honest_among(self.survivors)).holds(self.honest):
            raise InputError(
                f"honest must be a whole number from 1 to survivors - floor(colluding most_clients) = "
                f"{self.honest_among(self.survivors)}, got {self.honest!r}: every sum must hold as much noise as "
                "is booked; ask for more survivors, or allow for fewer dropouts or colluding clients"
            )

    def honest_among(self, survivors: int) -> int:
        """How many of those who stay do not collude, at least."""
        return survivors - share_of(self.most_clients, self.colluding)

    def require_list(self, devices: int) -> None:
        """Refuse a list with more devices than ``most_clients``: more of them could collude than is allowed for.

        Raises:
            RefusedError: ``bad-protocol``.
        """
        if devices > self.most_clients:
            raise RefusedError(Refusal.BAD_PROTOCOL)

    def require_sum_over(self, survivors: int) -> None:
        """Refuse a sum over too few clients, or with fewer honest shares of the noise than are booked.

        Raises:
            RefusedError: ``too-few``.
        """
        SumRules.require_sum_over(self, survivors)
        if self.honest_among(survivors) < self.honest:
            raise RefusedError(Refusal.TOO_FEW)

    def neighbourhood(self, clients: int, devices: int | None = None) -> Neighbourhood:
        """Of each client, where so many advertised keys.

        Raises:
            RefusedError: more than ``most_clients``, of whom more could collude than is allowed for.
        """
        if clients > self.most_clients:
            raise RefusedError(Refusal.BAD_PROTOCOL)
        return SumRules.neighbourhood(self, clients, devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedDp(MaskedSum):
    """The protocol.

    Guarantee, as long as the server keeps to the protocol: a sum comes out only over at least ``survivors``
    clients, at least ``honest`` of whom do not collude; with their shares alone its noise is what is booked, see
    ``NoiseShares``. Else the round is given up, booked.

    Reference: Kairouz, Liu and Steinke (2021), The distributed discrete Gaussian mechanism, arXiv:2102.06387 (the
    model; the shares here are rounded Gaussians, docs/guide/noise.md).
    """

    NAME: ClassVar[str] = "distributed-dp"
    rules: SharingRules

    @property
    def noise_at(self) -> NoiseAt:
        """The clients draw it together."""
        return NoiseAt.SHARES

    @property
    def trust(self) -> Trust:
        """Who sees what."""
        return masked_trust(
            self.rules,
            server_learns="It learns the sum over all clients that stayed, with the noise in it.",
            noise=(
                f"At least {self.rules.honest} of the clients in every sum must be honest and draw their share "
                "of the noise: that of clients that collude, or that the server invented, does not count, nor does "
                f"the own share of whoever looks at a board; who drops out does not matter. {self._server_must} "
                "Rounded shares add up to rounded Gaussian noise up to 1e-40 in total variation, for each number."
            ),
        )

    @property
    def _server_must(self) -> str:
        if self.rules.vouched_by:
            return (
                "The server need not keep to the protocol: each client signs who is in the sum, and counts the "
                "shares in it, before it helps to open it."
            )
        return (
            "The server must keep to the protocol: one that lies about who is there or who stayed obtains sums "
            "over far fewer clients, with less noise."
        )

    @classmethod
    def sized(cls, *, clients: int, users: int, settings: Mapping[str, Any], backend: str = "numpy") -> Self:
        """For a fleet: ``honest = survivors - max(1, floor(colluding clients))``.

        Args:
            clients: how many there are; >= 3.
            users: how many they host in all.
            settings: ``honest`` and the parameters of a secure sum, by name; they override what is chosen here.
            backend: which kernels compute.

        Raises:
            InputError: an unknown setting, one out of range, or no honest client would be left.
        """
        of_sum = {name: value for name, value in settings.items() if name != "honest"}
        rules = SumRules.sized(clients=clients, users=users, settings=of_sum)
        honest = settings.get("honest", rules.survivors - max(1, share_of(clients, rules.colluding)))
        own = {"honest": honest, "most_clients": clients}
        return cls.from_parameters({**rules.parameters, **own}, backend=backend)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], *, backend: str = "numpy") -> Self:
        """What a server states, on a client.

        Raises:
            InputError: not the parameters of this protocol, or a client's share could be too small with them.
        """
        require_known(SharingRules, parameters, of="distributed-dp")
        return cls(rules=SharingRules(**parameters), backend=backend)

    def noise(self, drawn: NoiseSource) -> SharedNoise:
        """The clients' shares."""
        return SharedNoise(least=self.rules.honest, drawn=drawn)

    def open(
        self, about: bytes, requests: Sequence[Request], clients: Sequence[str], *, n_items: int
    ) -> SecureSumServer:
        """Begin a round on the server.

        Raises:
            InputError: these requests leave no room, or there are more clients than were stated.
            TooFewAnswersError: fewer clients than survivors are asked for.
        """
        if len(clients) > self.rules.most_clients:
            raise InputError(
                f"{len(clients)} clients are there, and distributed-dp was sized for {self.rules.most_clients}: "
                "there is no room for their noise, and more of them may collude"
            )
        return MaskedSum.open(self, about, requests, clients, n_items=n_items)

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
        packing, sums = self._coarse(given)
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
        """If everybody stays; every client adds a share, and only the fewest honest ones are counted."""
        return math.sqrt(self.rules.most_clients / self.rules.honest)

    def _stddevs(self, requests: Sequence[Request]) -> dict[str, float]:
        everybody = math.sqrt(self.rules.most_clients)
        return {r.name: everybody * self.shares.share_stddev(r.release) for r in requests}


def _left(protocol: DistributedDp) -> SumsLeft:
    rules = protocol.rules
    return SumsLeft(
        packing=protocol.packing,
        fewest=rules.fewest,
        shares=protocol.shares,
        noise_shares=rules.honest_among,
        noise_ratio=protocol.noise_ratio,
    )


CARD = Card(
    protocol=DistributedDp,
    trusted="enough other clients",
    server_sees="the sum, noised already",
    bytes_by="items x rank, + neighbours",
    steps="4 or 5",
    meanings={
        **MEANINGS,
        "honest": "Fewest honest clients in any sum, whose shares make up all of the noise.",
        "most_clients": "Most clients of a round, whose noise the sums have room for.",
    },
    optional=OPTIONAL,
    neighbours=neighbours,
    without_messages=_left,
    audited_with={**AUDITED_WITH, "honest": AUDITED_WITH["survivors"]},
)
