"""A toy: every client sends the sums of its users as they are. What a registered protocol needs, and no more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import Given, NoiseAt, Trust
from fedboard.common.protocols.shared.one_step import OneStepClient, OneStepServer
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.sums.truncated import coarse_sums
from fedboard.common.wire.frame import pack_frame, unpack_frame
from fedboard.common.wire.refusals import Refusal, RefusedError


@dataclass(frozen=True, kw_only=True)
class Toy:
    """The protocol. ``most_users``: how many users the sums have room for, public."""

    NAME: ClassVar[str] = "toy"
    name: ClassVar[str] = NAME
    noise_at: ClassVar[NoiseAt] = NoiseAt.SERVER
    trust: ClassVar[Trust] = Trust(
        server_sees="The server sees the sums of each toy client as they are.",
        network_sees="The network sees what the server sees.",
        clients_see="Clients see the published boards only.",
        privacy_relies_on="The server must add the noise, keep the ledger and forget the sums.",
        utility_relies_on="The server and all clients must be honest.",
        malicious_client="A malicious client can add any numbers: nothing bounds them.",
    )
    most_users: int
    backend: str = "numpy"

    def __post_init__(self) -> None:
        """Refuse what makes no sense, whoever states it."""
        if type(self.most_users) is not int or self.most_users < 1:
            raise InputError(f"most_users must be a whole number from 1 on, got {self.most_users!r}")

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What a client must know; public."""
        return {"most_users": self.most_users}

    @classmethod
    def sized(cls, *, clients: int, users: int, settings: Mapping[str, Any], backend: str = "numpy") -> Self:
        """For a fleet of so many clients and users."""
        return cls.from_parameters({"most_users": users, **settings}, backend=backend)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], *, backend: str = "numpy") -> Self:
        """On a client, from what a server states."""
        if set(parameters) != {"most_users"}:
            raise InputError(f"toy has the one setting most_users, got {sorted(parameters)}")
        return cls(most_users=parameters["most_users"], backend=backend)

    def noise(self, drawn: NoiseSource) -> NoiseSource:
        """The server's own."""
        return drawn

    def packing(self, requests: Sequence[Request]) -> Packing:
        """All sums of a round in one vector."""
        return Packing.of(requests, most_users=self.most_users)

    def open(
        self, about: bytes, requests: Sequence[Request], clients: Sequence[str], *, n_items: int
    ) -> OneStepServer:
        """The server's side of a round."""
        return OneStepServer(about=about, clients=clients, adding=_Adding(self.packing(requests)))

    def join(self, about: bytes, noise: NoiseSource) -> OneStepClient:
        """A client's side of a round."""
        return self.resume(about, noise, b"")

    def resume(self, about: bytes, noise: NoiseSource, state: bytes) -> OneStepClient:
        """The same, after a restart."""
        return OneStepClient(about=about, pack=self._packed, sent=state)

    def _packed(self, given: Given) -> bytes:
        packing = self.packing(given.requests)
        sums = coarse_sums(given.contribution, given.requests, packing.shifts, backend=self.backend)
        return pack_frame(self.NAME, {}, {"sums": packing.flatten(sums)})


class _Adding:
    def __init__(self, packing: Packing) -> None:
        self._packing, self._total = packing, np.zeros(packing.size, dtype=np.uint32)

    def add(self, message: bytes) -> None:
        """Check everything, then change something."""
        arrays = unpack_frame(message, kinds=(Toy.NAME,), limit=self._total.nbytes + 4096).arrays
        sums: NDArray[Any] | None = arrays.get("sums")
        if sums is None or len(arrays) > 1:
            raise RefusedError(Refusal.MALFORMED)
        if (sums.dtype, sums.shape) != (self._total.dtype, self._total.shape):
            raise RefusedError(Refusal.MALFORMED)
        self._total += sums

    def sums(self) -> DenseSums:
        """Residues until they have their noise."""
        return DenseSums(sums=self._packing.unflatten(self._total), residue_bits=self._packing.residue_bits)


__all__ = ["Toy"]
