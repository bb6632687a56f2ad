"""The sessions of an audited protocol: few clients host everybody, with as little noise as the protocol admits.

What its parties hold in the course of a session is written down while it runs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedboard.common.arrays import IntArray, ResidueArray
from fedboard.common.board import Board
from fedboard.common.contribution import Contribution, Request
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol, ExactSums, Given, ServerSession
from fedboard.common.protocols.properties import Card, SumsLeft, with_second_server
from fedboard.common.protocols.secure_sum.server import SecureSumServer
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.common.protocols.sums.residues import Packing, coarse_sums
from fedboard.common.protocols.sums.row_bounds import joined, row_range
from fedboard.common.protocols.two_server.helper import LocalHelper
from fedboard.common.protocols.two_server.session import LeaderSession
from fedboard.simulations.sessions.choice import chosen_card, sums_left
from fedboard.simulations.sessions.clients import noise_of
from fedboard.simulations.sessions.runtime import about_of
from fedboard.simulations.sessions.session import drive

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
        if isinstance(session, SecureSumServer) and session.asks_contributions:
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


@dataclass(frozen=True, kw_only=True)
class Sessions:
    """A protocol other than ``trusted`` under audit, with the smallest set of survivors that makes a sum."""

    choice: str
    """Registered name."""
    backend: str
    client_noise: Callable[..., NoiseSource] = noise_of
    """A client's own source, of the run's source, the board's ``version`` and the ``client``."""
    helper_noise: Callable[[NoiseSource], NoiseSource] = field(default=lambda drawn: drawn)
    """What the second of two servers draws from, of the run's source."""

    def protocol(self, n_users: int) -> AggregationProtocol:
        """With room for so many users.

        Raises:
            InputError: no such protocol.
        """
        return self._card.protocol.sized(
            clients=self._n_clients,
            users=max(self._n_clients, n_users),
            settings=self._card.audited_with,
            backend=self.backend,
        )

    def carry(
        self,
        rows: Sequence[Contribution],
        board: Board,
        requests: tuple[Request, ...],
        drawn: NoiseSource,
        held: Held,
    ) -> ExactSums:
        """A real session over these rows, in which as many clients are lost as may be.

        Args:
            rows: that keep their bounds. Private.
            board: that is asked about.
            requests: of the round.
            drawn: the run's own source.
            held: where to write down what the parties hold.
        """
        everybody, about = joined(rows), about_of(board)
        protocol = with_second_server(self.protocol(everybody.n_users), self.helper_noise(drawn))
        names = [f"client-{number}" for number in range(self._n_clients)]
        staying = self.left.fewest
        bounds = np.minimum(np.arange(self._n_clients + 1), staying) * everybody.n_users // staying
        given = {
            name: Given(contribution=row_range(everybody, int(start), int(stop)), requests=requests)
            for name, start, stop in zip(names, bounds[:-1], bounds[1:], strict=True)
        }
        clients = {
            name: protocol.join(about, self.client_noise(drawn, version=board.version, client=number))
            for number, name in enumerate(names)
        }
        session = protocol.open(about, requests, names, n_items=board.catalogue.n_items)
        server = WatchedSession(session=session, held=held)
        late = set(names[staying:])
        sums = drive(server, clients, given, lambda step, name: server.asks_contributions and name in late)
        if self.left.second_noise is not None:
            held.noised = whole_sums(sums, requests)  # the first server's, before its own noise
        return sums

    def known(
        self,
        rows: Sequence[Contribution],
        honest: Contribution,
        board: Board,
        requests: tuple[Request, ...],
        drawn: NoiseSource,
        held: Held,
    ) -> dict[str, IntArray]:
        """What the adversary takes off the sums: what the honest users give, and the noise of a second server.

        Args:
            rows: all that were carried: they decide how coarse the sums are.
            honest: users whose rows they know.
            board: that was asked about.
            requests: of the round.
            drawn: the run's own source; they are, or have, the second server.
            held: where to write down what they know if they are the first.

        Returns:
            By release name, int64, shape (rows, width), grid units.
        """
        left = sums_left(self.choice, self.protocol(sum(part.n_users for part in rows)))
        packing = left.packing(requests)
        shifts = packing.shifts
        sent = left.cut(honest, about_of(board), requests)
        sums = coarse_sums(sent, requests, shifts, backend=self.backend)
        held.known = {name: values << shifts[name] for name, values in sums.items()}
        if left.second_noise is not None:
            for name, noise in left.second_noise(packing, self.helper_noise(drawn)).items():
                sums[name] = sums[name] + noise
        return {name: values << shifts[name] for name, values in sums.items()}

    @property
    def _card(self) -> Card:
        return chosen_card(self.choice)

    @property
    def _n_clients(self) -> int:
        return self._card.audited_clients

    @cached_property
    def left(self) -> SumsLeft:
        """What its sums are without what cancels in them."""
        return sums_left(self.choice, self.protocol(1))
