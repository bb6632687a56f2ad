"""Two servers that do not collude: each gets a share of what a user gives; neither learns which items she rated.

What a user says of her items travels as point functions (``point_functions.py``), so that a
message's size goes by the most items that a user may have and hardly by the catalogue. The first server, the
leader, asks and publishes; the second, the helper, adds up its shares, adds noise of its own and hands the leader
one total a round.

Reference: Boyle, Gilboa and Ishai (2016), "Function secret sharing: improvements and extensions"; PREAMBLE (2025),
arXiv:2503.11897; SecEmb (ICML 2025), arXiv:2505.12453.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from fedboard.common.contribution import Contribution, Request
from fedboard.common.errors import FedboardError, InputError, TooFewAnswersError
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise
from fedboard.common.protocol import AggregationProtocol, Given, Trust
from fedboard.common.protocols.properties import Card, SumsLeft
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.sums.row_bounds import only_entries
from fedboard.common.protocols.two_server.helper import (
    NOISE_RATIO,
    Helper,
    LocalHelper,
    TwoServerRules,
    helper_noise,
)
from fedboard.common.protocols.two_server.session import LeaderSession, SparseClient
from fedboard.common.protocols.two_server.shares import Layout, Split, kept_entries, split

_USUAL_ITEMS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoServer(AggregationProtocol):
    """The protocol. What is not public about it, who the helper is, is set on each side.

    The leader draws the noise that is booked; what the helper adds comes on top and is not counted.
    """

    NAME: ClassVar[str] = "two-server"
    second_server: ClassVar[bool] = True
    rules: TwoServerRules
    """Sizes, and the fewest clients. Public."""
    identity: bytes | None = None
    """Whom a client, or the leader, takes for the helper; None: anybody, for simulations only."""
    helper: Helper | None = field(default=None, repr=False)
    """The leader's way to the helper; None: one in this process, for simulations only."""

    def __post_init__(self) -> None:
        """Check the identity.

        Raises:
            InputError: it is no key.
        """
        if self.identity is not None and len(self.identity) != 32:
            raise InputError("the identity of a helper is an Ed25519 key of 32 bytes")

    @property
    def trust(self) -> Trust:
        """Who sees what."""
        return Trust(
            server_sees=(
                "Each of the two servers sees which clients took part and how many users each hosts, and random "
                f"shares of a size that is the same for all users; each user sends {self.rules.most_items} items, "
                "real or empty. The first also sees the sum under the second one's noise."
            ),
            network_sees=(
                "The network sees sizes and times; the second server's shares are sealed to a key of the round."
            ),
            clients_see="Clients see the published boards only.",
            privacy_relies_on=(
                "The two servers must not collude. If the second is honest the first learns noised sums only, even "
                "if it does not follow the protocol; if the first is honest the second learns the boards only."
            ),
            utility_relies_on="The board is as good as both servers and all clients are honest.",
            malicious_client=(
                "A malicious client can add any numbers to the sums: no server sees a user's norm, and none is "
                "proved; a round whose sums are larger than honest ones can be is given up."
            ),
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Public: sizes, and the fewest clients."""
        return self.rules.parameters

    @classmethod
    def sized(cls, *, clients: int, users: int, settings: Mapping[str, Any], backend: str = "numpy") -> Self:
        """For a fleet: 256 items a user, and two clients make a sum where there are two.

        Raises:
            InputError: an unknown setting, or one out of range.
        """
        usual = {"most_users": users, "most_items": _USUAL_ITEMS, "survivors": min(2, clients)}
        return cls.from_parameters({**usual, **settings}, backend=backend)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], *, backend: str = "numpy") -> Self:
        """What a server states, on a client.

        Raises:
            InputError: not the parameters of this protocol.
        """
        return cls(rules=TwoServerRules.from_parameters(parameters))

    def pinned(self, identity: bytes) -> Self:
        """The same protocol with a helper that must be this one: for devices, and for the leader.

        Args:
            identity: its Ed25519 public key, 32 bytes, as ``fedboard helper`` prints it.

        Raises:
            InputError: no such key.
        """
        return replace(self, identity=identity)

    def helped_by(self, helper: Helper) -> Self:
        """The same protocol with this way to the helper: for the leader.

        Args:
            helper: ``LocalHelper(noise)``, or one over the network.
        """
        return replace(self, helper=helper)

    def helped_here(self, noise: NoiseSource) -> Self:
        """The same protocol with a fresh helper in this process: for simulations only."""
        return self.helped_by(LocalHelper(noise))

    def packing(self, requests: Sequence[Request]) -> Packing:
        """The round's numbers modulo 2^32, with room for the noise of both servers.

        Raises:
            InputError: no room.
        """
        return self.rules.packing(requests)

    def open(
        self, about: bytes, requests: Sequence[Request], clients: Sequence[str], *, n_items: int
    ) -> LeaderSession:
        """Begin a round on the leader and with the helper.

        Raises:
            InputError: requests that cannot be carried (sums over pairs of items, or too large for 32 bits), or
                another helper than the pinned one.
            TooFewAnswersError: too few clients, or the helper does not begin this round.
        """
        layout = self.rules.layout(about, requests)
        if len(clients) < self.rules.survivors:
            raise TooFewAnswersError(
                f"two-server needs {self.rules.survivors} clients and {len(clients)} are there; nothing was asked"
            )
        helper = self.helper or LocalHelper(SecureNoise())
        try:
            key = helper.begin(about, requests, self.rules)
            key.require(bound=self.rules.bound(about), identity=self.identity)
        except RefusedError as error:
            raise _not_begun(error) from error
        return LeaderSession(
            about=about,
            clients=frozenset(clients),
            layout=layout,
            helper=helper,
            key=key,
            survivors=self.rules.survivors,
        )

    def join(self, about: bytes, noise: NoiseSource) -> SparseClient:
        """Begin a round on a client, which draws no noise of its own."""

        def shared(given: Given) -> Split:
            return split(given.contribution, self.rules.layout(about, given.requests))

        return SparseClient(bound=self.rules.bound(about), identity=self.identity, split=shared)

    def resume(self, about: bytes, noise: NoiseSource, state: bytes) -> SparseClient:
        """Go on with a session from its ``to_bytes``."""
        session = self.join(about, noise)
        session.restore(state)
        return session


def _not_begun(error: RefusedError) -> FedboardError:
    if error.code is Refusal.OTHER_HELPER:
        return InputError(
            "the second server that answers is not the one whose identity is pinned; check its address and identity"
        )
    return TooFewAnswersError(
        f"the second server does not begin this round ({error.code}); nothing was asked",
        given=error.code is Refusal.ANSWERED_BEFORE,
    )


def _left(protocol: TwoServer) -> SumsLeft:
    def cut(contribution: Contribution, about: bytes, requests: Sequence[Request]) -> Contribution:
        layout = protocol.rules.layout(about, requests)
        return _of_largest_weight(contribution, layout) if layout.per_item else contribution

    return SumsLeft(
        packing=protocol.packing,
        fewest=protocol.rules.survivors,
        noise_ratio=NOISE_RATIO,
        cut=cut,
        second_noise=helper_noise,
    )


def _of_largest_weight(contribution: Contribution, layout: Layout) -> Contribution:
    """The entries that a user's message has room for."""
    bounds, kept = contribution.indptr, np.zeros(contribution.items.size, dtype=np.bool_)
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        places, _ = kept_entries(contribution, slice(start, stop), layout)
        kept[start + places] = True
    return only_entries(contribution, kept)


CARD = Card(
    protocol=TwoServer,
    trusted="one of two servers",
    server_sees="shares that say nothing alone",
    bytes_by="most ratings x rank",
    steps="1",
    meanings={
        "most_users": "Users whose contributions the sums have room for: more make the packing coarser.",
        "most_items": "Public maximum of items of a user; every message is padded to it.",
        "survivors": "Fewest clients whose contributions make a sum; with fewer the round is given up.",
    },
    without_messages=_left,
)
