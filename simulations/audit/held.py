"""What the parties of a protocol hold in the course of a session, written down while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fedboard.common.arrays import IntArray, ResidueArray
from fedboard.common.protocol import ExactSums, ServerSession
from fedboard.common.protocols.secure_sum.messages import MaskingStep
from fedboard.common.protocols.secure_sum.server import SecureSumServer
from fedboard.common.protocols.sums.residues import Packing
from fedboard.common.protocols.two_server.helper import LocalHelper
from fedboard.common.protocols.two_server.session import LeaderSession

AGGREGATOR, FIRST, SECOND = "the aggregator", "the first server", "the second server"


@dataclass(slots=True, kw_only=True, repr=False)
class Held:
    """One round, from inside. Private."""

    blind: list[tuple[str, ResidueArray]] = field(default_factory=list)
    """(whose, uint32 numbers) that must look uniform and independent of everybody's ratings: masked numbers of
    one client, one server's share of all."""
    packing: Packing | None = None
    """Where the numbers of a release lie in these."""
    noised: Mapping[str, IntArray] = field(default_factory=dict)
    """By release name: sums, int64, grid units, that a party holds under noise which is not its own."""
    known: Mapping[str, IntArray] = field(default_factory=dict)
    """The same sums without noise and without any planted row: what the adversary knows of them."""


@dataclass(slots=True, kw_only=True)
class WatchedSession:
    """A server's session that writes down what is held while it runs; all the rest is the session's own."""

    session: ServerSession
    held: Held

    @property
    def asks_contributions(self) -> bool:
        """The session's."""
        return self.session.asks_contributions

    def outgoing(self) -> Mapping[str, bytes]:
        """The session's."""
        return self.session.outgoing()

    def take(self, client: str, reply: bytes) -> None:
        """The session's; what it adds to its masked total is one client's masked numbers."""
        session = self.session
        if isinstance(session, SecureSumServer) and session._step is MaskingStep.MASKED:
            before = session._total.copy()
            session.take(client, reply)
            self.held.packing = session.packing
            self.held.blind.append((AGGREGATOR, session._total - before))
        else:
            session.take(client, reply)

    def proceed(self) -> bool:
        """The session's; before it, each of two servers has its share of everybody's numbers."""
        session = self.session
        if isinstance(session, LeaderSession) and isinstance(session.helper, LocalHelper):
            other = session.helper._session(session.about)
            self.held.packing = session.layout.packing
            self.held.blind.append((FIRST, session._share.vector()))
            self.held.blind.append((SECOND, other._sums.vector()))
        return self.session.proceed()

    def sums(self) -> ExactSums:
        """The session's."""
        return self.session.sums()


def under_noise(name: str) -> str:
    """What a release's sums are called where the first of two servers has them under the second one's noise."""
    return f"{FIRST}'s {name}"


def centred(held: Held) -> dict[str, IntArray]:
    """All blind numbers of a round as sums by release, int64, shape (rows, width); empty where there are none."""
    if held.packing is None or not held.blind:
        return {}
    parts = [held.packing.unflatten(np.ascontiguousarray(numbers)) for _, numbers in held.blind]
    return {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}
