"""A protocol of your own: two servers, each of which adds up one half of every client's numbers.

    fedboard simulate --protocol examples/additive_shares.py:AdditiveShares

A half alone is uniformly random. Here both servers are two sums in one process, so this shows how a protocol is
written and hides nothing from whoever runs it. docs/guide/writing-a-protocol.md walks through the file.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.common.messages.frame import pack_frame, unpack_frame
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol, Given, Trust
from fedboard.common.protocols.properties import Card, SumsLeft
from fedboard.common.protocols.sessions import OneStepClient, OneStepServer
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.protocols.sums.residues import Packing, coarse_sums


@dataclass(frozen=True, kw_only=True)
class AdditiveShares(AggregationProtocol):
    """The protocol. ``most_users``: how many users the sums have room for, public."""

    NAME: ClassVar[str] = "additive-shares"
    trust: ClassVar[Trust] = Trust(
        server_sees="Each server sees one uniformly random half of a client's sums, and both halves of the total.",
        network_sees="Whoever reads both halves of a message reads a client's sums: they must be sealed apart.",
        clients_see="Clients see the published boards only.",
        privacy_relies_on="The two servers must not collude, and must add the noise and keep the ledger.",
        utility_relies_on="Both servers and all clients must be honest.",
        malicious_client="A malicious client can add any numbers: nobody sees what it gives, so nothing bounds it.",
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
            raise InputError(f"additive-shares has the one setting most_users, got {sorted(parameters)}")
        return cls(most_users=parameters["most_users"], backend=backend)

    def open(
        self, about: bytes, requests: Sequence[Request], clients: Sequence[str], *, n_items: int
    ) -> OneStepServer:
        """The servers' side of a round."""
        adding = TwoSums(Packing.of(requests, most_users=self.most_users))
        return OneStepServer(about=about, clients=clients, adding=adding)

    def join(self, about: bytes, noise: NoiseSource) -> OneStepClient:
        """A client's side of a round."""
        return OneStepClient(about=about, pack=self.halves)

    def resume(self, about: bytes, noise: NoiseSource, state: bytes) -> OneStepClient:
        """The same, after a restart."""
        return OneStepClient(about=about, pack=self.halves, sent=state)

    def halves(self, given: Given) -> bytes:
        """What a client sends: its sums minus random numbers, and the random numbers, modulo 2^32."""
        packing = Packing.of(given.requests, most_users=self.most_users)
        checked = coarse_sums(given.contribution, given.requests, packing.shifts, backend=self.backend)
        random = np.frombuffer(os.urandom(4 * packing.size), dtype=np.uint32)
        return pack_frame("halves", {}, {"first": packing.flatten(checked) - random, "second": random})


class TwoSums:
    """The two servers: each adds up one half."""

    def __init__(self, packing: Packing) -> None:
        self.packing = packing
        self.totals = {half: np.zeros(packing.size, dtype=np.uint32) for half in ("first", "second")}

    def add(self, message: bytes) -> None:
        """Check everything, then change something."""
        halves = unpack_frame(message, kinds=("halves",), limit=8 * self.packing.size + 4096).arrays
        if {(name, half.dtype, half.shape) for name, half in halves.items()} != {
            (name, total.dtype, total.shape) for name, total in self.totals.items()
        }:
            raise RefusedError(Refusal.MALFORMED)
        for name, total in self.totals.items():
            total += halves[name]

    def sums(self) -> DenseSums:
        """The two totals together, on the grid of the releases: residues until they have their noise."""
        sums = self.packing.unflatten(self.totals["first"] + self.totals["second"])
        return DenseSums(sums=sums, residue_bits=self.packing.residue_bits)


def _left(protocol: AdditiveShares) -> SumsLeft:
    """What is left of it in large simulations, where nobody carries messages."""

    def packing(requests: Sequence[Request]) -> Packing:
        return Packing.of(requests, most_users=protocol.most_users)

    return SumsLeft(packing=packing, fewest=1)


CARD = Card(
    protocol=AdditiveShares,
    trusted="two servers that do not collude",
    server_sees="half of a user's sums",
    bytes_by="items x rank, twice",
    steps="1",
    meanings={"most_users": "Users whose contributions the sums have room for."},
    without_messages=_left,
)
