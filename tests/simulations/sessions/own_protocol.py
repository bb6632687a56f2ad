"""A protocol that is not part of the package: packed sums in the open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from fedboard.common.contribution import Request
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol, Given, NoiseAt, Trust
from fedboard.common.protocols.sessions import OneStepClient, OneStepServer
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.protocols.sums.residues import Packing, coarse_sums

NOT_A_CLASS = 1


class NotAProtocol:
    """Nothing that it would need."""


class Forgetful(AggregationProtocol):
    """Nothing but what its base says, which is nothing that could be run."""

    NAME: ClassVar[str] = "forgetful"


@dataclass(frozen=True, kw_only=True)
class Plain:
    """The protocol."""

    name: ClassVar[str] = "plain"
    noise_at: ClassVar[NoiseAt] = NoiseAt.SERVER
    most_users: int
    backend: str

    @property
    def trust(self) -> Trust:
        return Trust(
            server_sees="Everything.",
            network_sees="Everything.",
            clients_see="Boards.",
            privacy_relies_on="Everybody.",
            utility_relies_on="Everybody.",
            malicious_client="Anything.",
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"most_users": self.most_users}

    @classmethod
    def sized(cls, *, clients: int, users: int, settings: Mapping[str, Any], backend: str = "numpy") -> Self:
        return cls(most_users=users, backend=backend)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], *, backend: str = "numpy") -> Self:
        return cls(most_users=parameters["most_users"], backend=backend)

    def noise(self, drawn: NoiseSource) -> NoiseSource:
        return drawn

    def open(
        self, about: bytes, requests: Sequence[Request], clients: Sequence[str], *, n_items: int
    ) -> OneStepServer:
        return OneStepServer(about=about, clients=clients, adding=_Adding(self.packing(requests)))

    def join(self, about: bytes, noise: NoiseSource) -> OneStepClient:
        return self.resume(about, noise, b"")

    def resume(self, about: bytes, noise: NoiseSource, state: bytes) -> OneStepClient:
        return OneStepClient(about=about, pack=self._packed, sent=state)

    def packing(self, requests: Sequence[Request]) -> Packing:
        return Packing.of(requests, most_users=self.most_users)

    def _packed(self, given: Given) -> bytes:
        packing = self.packing(given.requests)
        return packing.flatten(coarse_sums(given.contribution, given.requests, packing.shifts)).tobytes()


class Boasting(Plain):
    """It says of itself what only the registry's protocols are asked for."""

    shows_rows: ClassVar[bool] = True
    fits_any_fleet: ClassVar[bool] = True


class Alone(Plain):
    """It needs a second server, and has no way to one."""

    second_server: ClassVar[bool] = True


class _Adding:
    def __init__(self, packing: Packing) -> None:
        self._packing, self._total = packing, np.zeros(packing.size, dtype=np.uint32)

    def add(self, message: bytes) -> None:
        self._total += np.frombuffer(message, dtype=np.uint32)

    def sums(self) -> DenseSums:
        return DenseSums(sums=self._packing.unflatten(self._total))
