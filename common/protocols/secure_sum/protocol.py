"""Secure sums: clients mask their numbers so that the server learns the sum over all of them and nothing else.

Pairwise masks that cancel, a mask of one's own, and shares of both secrets among neighbours, so that a sum survives
those who drop out.

Reference: Bonawitz et al. (2017), doi:10.1145/3133956.3133982 (the protocol); Bell, Bonawitz, Gascon, Lepoint and
Raykova (2020), doi:10.1145/3372297.3417885 (neighbourhoods).
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedboard.common.arrays import IntArray
from fedboard.common.boards.roster import Roster
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError, PrivacyError, TooFewAnswersError
from fedboard.common.messages.refusals import RefusedError
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol, Given, Trust
from fedboard.common.protocols.properties import Card, Parameters, SumsLeft
from fedboard.common.protocols.secure_sum.client import SecureSumClient
from fedboard.common.protocols.secure_sum.rules import MOST_CLIENTS, Carried, SumRules, neighbourhood
from fedboard.common.protocols.secure_sum.server import SecureSumServer
from fedboard.common.protocols.sessions import Voucher
from fedboard.common.protocols.sums.residues import Packing, coarse_sums

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedSum(AggregationProtocol, Carried):
    """What sums under masks have in common, whatever the masked vectors carry."""

    vouches: ClassVar[bool] = True
    rules: SumRules
    backend: str = "numpy"
    """Which kernels compute; never changes a sum."""
    voucher: Voucher | None = None
    """Of a device."""
    roster: Roster | None = None
    """Of a server, where clients are vouched for."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Those of the rules."""
        return self.rules.parameters

    def vouched(self, voucher: Voucher) -> Self:
        """The same protocol on a device with an identity; it takes part where its authority vouches."""
        return replace(self, voucher=voucher)

    def among(self, roster: Roster) -> Self:
        """The same protocol on a server, among the devices of a list.

        Raises:
            InputError: the list names more devices than the sums or their noise allow for; clients would refuse it.
        """
        try:
            self.rules.require_list(len(roster.keys))
        except RefusedError:
            raise InputError(
                f"the list names {len(roster.keys)} devices, more than this run was sized for: more of them may "
                "collude than its noise allows for; begin a new run"
            ) from None
        return replace(self, roster=roster)

    def open(
        self, about: bytes, requests: Sequence[Request], clients: Sequence[str], *, n_items: int
    ) -> SecureSumServer:
        """Begin a round on the server.

        Raises:
            InputError: the sums do not fit 32 bits, or there are too many clients.
            TooFewAnswersError: fewer clients than survivors are asked for.
        """
        if len(clients) > MOST_CLIENTS or len(set(clients)) != len(clients):
            raise InputError(
                f"a secure sum takes up to {MOST_CLIENTS} clients, each once, got {len(clients)}"
            )
        fewest = self.rules.fewest_of(None if self.roster is None else len(self.roster.keys))
        if len(clients) < fewest:
            raise TooFewAnswersError(
                f"{len(clients)} clients are there and a secure sum needs {fewest}; nothing was asked"
            )
        return SecureSumServer(
            about=about,
            clients=tuple(clients),
            rules=self.rules,
            carried=self,
            packing=self.packing(requests),
            roster=self.roster,
        )

    def join(self, about: bytes, noise: NoiseSource) -> SecureSumClient:
        """Begin a round on a client, with fresh secrets."""
        return SecureSumClient(about=about, noise=noise, rules=self.rules, carried=self, voucher=self.voucher)

    def resume(self, about: bytes, noise: NoiseSource, state: bytes) -> SecureSumClient:
        """Go on with a session; a state must be resumed once only.

        Raises:
            InputError: it is no state.
        """
        return self.join(about, noise).restore(state)

    def _coarse(self, given: Given) -> tuple[Packing, dict[str, IntArray]]:
        """The packing of a round, and the coarse sums of one client.

        Raises:
            PrivacyError: a row breaks its bound, or there are more rows than all clients together have room for.
        """
        if given.contribution.n_users > self.rules.most_users:
            raise PrivacyError(
                f"{given.contribution.n_users} rows, and the sums of all clients have room for "
                f"{self.rules.most_users}; nothing was sent"
            )
        packing = self.packing(given.requests)
        sums = coarse_sums(given.contribution, given.requests, packing.shifts, backend=self.backend)
        return packing, sums


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureSum(MaskedSum):
    """The protocol; the server draws the noise.

    Guarantee: the sums are those of ``coarse_sums`` over the clients whose masked numbers arrived, to the last bit.
    """

    NAME: ClassVar[str] = "secure-sum"

    @classmethod
    def sized(
        cls, *, clients: int, users: int, settings: Mapping[str, Any], backend: str = "numpy"
    ) -> "SecureSum":
        """For a fleet: ``survivors = ceil((1 - dropout) clients)`` unless set; see ``SumRules.sized``.

        Raises:
            InputError: fewer than 3 clients, an unknown setting, or a value out of range.
        """
        return cls(rules=SumRules.sized(clients=clients, users=users, settings=settings), backend=backend)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], *, backend: str = "numpy") -> "SecureSum":
        """From what a server states.

        Raises:
            InputError: unknown, missing or out of range.
        """
        return cls(rules=SumRules.from_parameters(parameters), backend=backend)

    @property
    def trust(self) -> Trust:
        """Who sees what."""
        return masked_trust(
            self.rules,
            server_learns="It learns the exact sum over all clients that stayed, before noise.",
            noise=(
                "For what is published, the server must add the noise, keep the ledger and keep the exact sum to "
                "itself."
            ),
        )

    def packing(self, requests: Sequence[Request]) -> Packing:
        """Room for all users and for the noise, which is added to residues.

        Raises:
            InputError: they do not fit.
        """
        return Packing.of(requests, most_users=self.rules.most_users)

    def numbers(self, given: Given, noise: NoiseSource) -> NDArray[np.uint32]:
        """The coarse sums, uint32, shape (size,); ``noise`` is not used. Private.

        Raises:
            PrivacyError: a row breaks its bound, or there are more rows than there is room for.
        """
        packing, sums = self._coarse(given)
        return packing.flatten(sums)

    def admitted(self, packing: Packing, sums: Mapping[str, IntArray]) -> Mapping[str, IntArray]:
        """The sums, whatever they are; the log says where honest clients cannot have made them.

        They are exact, so nobody else may learn that: a client could add just so much that it tells how large the
        others' sum is.
        """
        if not packing.plausible(sums, n_users=self.rules.most_users):
            _log.warning(
                "the sums are larger than honest clients can have made them; the board may be spoilt"
            )
        return sums

    def residue_bits(self, packing: Packing) -> Mapping[str, int]:
        """All sums are residues until they have their noise."""
        return packing.residue_bits

    def noise_shares(self, survivors: int) -> int:
        """None: the sums are exact."""
        return 0

    @property
    def noise_ratio(self) -> float:
        """The server adds what it books."""
        return 1.0


def masked_trust(rules: SumRules, *, server_learns: str, noise: str) -> Trust:
    """The trust model of masked sums.

    Args:
        rules: of the sum.
        server_learns: what the server learns of the sum.
        noise: who must add the noise.
    """
    return Trust(
        server_sees=(
            "Of one client the server sees public keys, sealed shares, numbers masked to look uniform, and whether "
            f"it dropped out. {server_learns}"
        ),
        network_sees="Somebody who watches the network sees what the server sees before it takes the masks off.",
        clients_see=(
            "A client sees the keys of its neighbours, under names that hold for one round, which of them dropped "
            "out, and shares of their secrets that are too few to mean anything."
        ),
        privacy_relies_on=f"{_vouched(rules) if rules.vouched_by else _unvouched(rules)} {noise}",
        utility_relies_on=(
            f"The round is given up, booked, if more than {rules.dropout:.0%} of the clients drop out, and any "
            "client can make it fail with wrong shares to or for many others."
        ),
        malicious_client=(
            "A client can add anything to the sum, since nobody sees its rows and no proof of their norm is asked "
            "for. It cannot weaken the privacy of others by that: what is published is reduced modulo 2^32 after "
            "the noise, not before."
        ),
    )


def _unvouched(rules: SumRules) -> str:
    return (
        "No input is seen alone by a server that keeps to the protocol, even together with up to "
        f"{rules.colluding:.0%} of the clients; at least {rules.fewest} clients are in every sum then. A "
        "server that lies about who dropped out cannot have both secrets of a client put together, but one "
        "that invents clients, or tells them different neighbours or survivors, can obtain sums over far "
        "fewer: no authority vouches for keys, and clients do not confirm the set to one another."
    )


def _vouched(rules: SumRules) -> str:
    return (
        f"No input is seen alone, and no sum over fewer than {rules.fewest} clients is opened, whatever the "
        f"server says or does, as long as at most {rules.colluding:.0%} of the devices that the authority "
        f"{rules.vouched_by[:16]} vouches for collude with it, devices of the server's own making among them. "
        "Each client checks that its neighbours are listed and are those of the graph, and helps to open a sum "
        "only once more than half of all listed devices have signed the one set of survivors that it was told."
    )


MEANINGS: Mapping[str, str] = {
    "most_users": "Users whose contributions the sums have room for: more make the packing coarser.",
    "survivors": "Fewest clients whose contributions make a sum; with fewer the round is given up.",
    "dropout": "Largest share of the clients that may drop out of a round.",
    "colluding": "Largest share of the clients that may collude with the server.",
}
OPTIONAL: Mapping[str, str] = {
    "vouched_by": "Public key of who vouches for devices; with it the masks hold against a server that lies, too.",
}
AUDITED_WITH: Parameters = {"colluding": 0.0, "survivors": 7}
"""Without clients that collude, the noise that is booked is that of the smallest set of survivors, exactly."""


def neighbours(parameters: Parameters, clients: int) -> int:
    """Peers that a client of such a session shares masks and secrets with."""
    return neighbourhood(clients, dropout=parameters["dropout"], colluding=parameters["colluding"]).size


def _left(protocol: SecureSum) -> SumsLeft:
    return SumsLeft(packing=protocol.packing, fewest=protocol.rules.fewest)


CARD = Card(
    protocol=SecureSum,
    trusted="the server's noise",
    server_sees="the sum over everybody",
    bytes_by="items x rank, + neighbours",
    steps="4 or 5",
    meanings=MEANINGS,
    optional=OPTIONAL,
    neighbours=neighbours,
    without_messages=_left,
    audited_with=AUDITED_WITH,
)
