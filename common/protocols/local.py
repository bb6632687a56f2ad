"""Local privacy: every client adds all the noise that its users need before anything leaves it.

Nobody has to be trusted, and it costs accuracy: with n users the sum carries sqrt(n) times the noise that the other
protocols need for the same guarantee. The baseline that they are compared with.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from fedboard.common.checks import require_whole
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.messages.frame import NoFields, pack_frame, unpack_frame
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.noise_shares import NoiseShares, SharedNoise
from fedboard.common.protocol import AggregationProtocol, Given, NoiseAt, Trust
from fedboard.common.protocols.properties import Card, SumsLeft
from fedboard.common.protocols.sessions import OneStepClient, OneStepServer
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.protocols.sums.residues import Packing, coarse_sums, own_stddevs

_KIND = "local"
_MOST_USERS = 1 << 31
_HEADER_BYTES = 1 << 12
_FULL_NOISE = NoiseShares(least=1)
_TRUST = Trust(
    server_sees="The server sees each client's sums with all the noise in them: no more than the guarantee "
    "allows, and how many users it hosts, which the amount of noise tells.",
    network_sees="The network sees no more than the server does; all messages of a round have one size.",
    clients_see="Clients see the published boards only.",
    privacy_relies_on="Each user relies on her own client alone: it draws all the noise of a release on its own.",
    utility_relies_on="The board is as good as the server and all clients are honest, and its sums over n users "
    "carry sqrt(n) times the noise that is booked.",
    malicious_client="A malicious client can move the sum by any amount: the server cannot tell it from noise.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Local(AggregationProtocol):
    """The protocol: noised, packed sums of each client, added up in the open.

    A client that hosts c users adds noise of c users, ``rint(N(0, c sigma^2))``, so that the sum over n users has
    deviation ``sqrt(n) sigma`` however they are hosted, sigma being the release's ``noise_stddev``. Each release is
    booked once, with one noise share as its least: of two neighbours one message alone differs.

    Reference: Kasiviswanathan et al. (2011), What can we learn privately?, doi:10.1137/090756090 (the model).
    """

    NAME: ClassVar[str] = "local"
    most_users: int
    """Users that the sums have room for."""
    backend: str = "numpy"
    """Which kernels compute; never changes a sum."""

    def __post_init__(self) -> None:
        """Check the range.

        Raises:
            InputError: not a number of users.
        """
        require_whole("the local protocol's most_users", self.most_users, most=_MOST_USERS - 1)

    @property
    def noise_at(self) -> NoiseAt:
        """Each client draws all of the noise."""
        return NoiseAt.CLIENT

    @property
    def trust(self) -> Trust:
        """Who sees what."""
        return _TRUST

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Room for users."""
        return {"most_users": self.most_users}

    @classmethod
    def sized(cls, *, clients: int, users: int, settings: Mapping[str, Any], backend: str = "numpy") -> Self:
        """For a fleet; ``settings`` may name ``most_users``.

        Raises:
            InputError: another setting, or out of range.
        """
        return cls.from_parameters({"most_users": users, **settings}, backend=backend)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], *, backend: str = "numpy") -> Self:
        """What a server states, on a client.

        Raises:
            InputError: not the parameters of this protocol.
        """
        if set(parameters) != {"most_users"}:
            raise InputError(
                f"the local protocol's one setting is most_users, got {', '.join(sorted(parameters))}"
            )
        return cls(most_users=parameters["most_users"], backend=backend)

    def noise(self, drawn: NoiseSource) -> SharedNoise:
        """The clients': one share is all of it."""
        return SharedNoise(least=1, drawn=drawn)

    def packing(self, requests: Sequence[Request]) -> Packing:
        """How these sums are packed, with room for everybody's noise.

        Raises:
            InputError: they do not fit.
        """
        stddevs = own_stddevs(requests, times=math.sqrt(self.most_users))
        packing = Packing.of(requests, most_users=self.most_users, noise_stddevs=stddevs)
        for request in requests:
            _FULL_NOISE.require_smooth(request.release, shift=packing.shifts[request.name])
        return packing

    def open(
        self, about: bytes, requests: Sequence[Request], clients: Sequence[str], *, n_items: int
    ) -> OneStepServer:
        """Begin a round on the server."""
        return OneStepServer(about=about, clients=clients, adding=_Adding(self.packing(requests)))

    def join(self, about: bytes, noise: NoiseSource) -> OneStepClient:
        """Begin a round on a client."""
        return self.resume(about, noise, b"")

    def resume(self, about: bytes, noise: NoiseSource, state: bytes) -> OneStepClient:
        """Go on on a client."""
        return OneStepClient(about=about, pack=lambda given: self._packed(given, noise), sent=state)

    def _packed(self, given: Given, noise: NoiseSource) -> bytes:
        n_users = given.contribution.n_users
        if n_users > self.most_users:
            raise RefusedError(Refusal.TOO_MANY_USERS)
        packing = self.packing(given.requests)
        sums = coarse_sums(given.contribution, given.requests, packing.shifts, backend=self.backend)
        for request in given.requests:
            sums[request.name] += _FULL_NOISE.draw(
                request.release,
                noise.stream(request.name),
                shift=packing.shifts[request.name],
                shares=max(1, n_users),
            )
        return pack_frame(_KIND, {}, {"residues": packing.flatten(sums)})


class _Adding:
    """Adds the messages of a session, modulo 2^32."""

    def __init__(self, packing: Packing) -> None:
        self._packing, self._messages = packing, 0
        self._total = np.zeros(packing.size, dtype=np.uint32)

    def add(self, message: bytes) -> None:
        limit = self._total.nbytes + _HEADER_BYTES
        frame = unpack_frame(message, kinds=(_KIND,), limit=limit)
        frame.read(NoFields)
        (residues,) = frame.arrays_as({"residues": ("u4", (None,))})
        if residues.shape != self._total.shape:
            raise RefusedError(Refusal.WRONG_BOARD)
        self._total += residues
        self._messages += 1

    def sums(self) -> DenseSums:
        return DenseSums(
            sums=self._packing.unflatten(self._total),
            noise_shares=self._messages,
            noise_ratio=math.sqrt(self._packing.most_users),  # if all are there
        )


def _left(protocol: Local) -> SumsLeft:
    return SumsLeft(
        packing=protocol.packing,
        fewest=1,
        shares=NoiseShares(least=1),
        noise_shares=lambda clients: clients,
        noise_ratio=math.sqrt(protocol.most_users),
    )


CARD = Card(
    protocol=Local,
    trusted="nobody but her device",
    server_sees="her sums under all the noise",
    bytes_by="items x rank",
    steps="1",
    meanings={
        "most_users": "Users whose contributions the sums have room for: more make the packing coarser."
    },
    without_messages=_left,
    audited_clients=1,
)
