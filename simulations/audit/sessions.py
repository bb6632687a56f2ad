"""The sessions of an audited protocol: few clients host everybody, with as little noise as the protocol admits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.board import Board
from fedboard.common.contribution import Contribution, Request
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol, ExactSums, Given
from fedboard.common.protocols.shared.card import Card
from fedboard.common.protocols.shared.properties import with_second_server
from fedboard.common.protocols.shared.sums_left import SumsLeft
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.common.protocols.sums.stacking import joined, row_range
from fedboard.common.protocols.sums.truncated import coarse_sums
from fedboard.simulations.audit.held import Held, WatchedSession
from fedboard.simulations.sessions.choice import chosen_card, sums_left
from fedboard.simulations.sessions.clients import noise_of
from fedboard.simulations.sessions.driving import drive
from fedboard.simulations.sessions.runtime import about_of

ClientNoise = Callable[[NoiseSource, int, int], NoiseSource]
"""(of the run, version of the board, client) -> the client's own."""
HelperNoise = Callable[[NoiseSource], NoiseSource]


def as_given(drawn: NoiseSource) -> NoiseSource:
    """A second server draws from streams of its own of the run's source."""
    return drawn


def honest_noise(drawn: NoiseSource, version: int, client: int) -> NoiseSource:
    """What a client draws from that keeps to the protocol."""
    return noise_of(drawn, version=version, client=client)


@dataclass(frozen=True, kw_only=True)
class Sessions:
    """A protocol other than ``trusted`` under audit, with the smallest set of survivors that makes a sum."""

    choice: str
    """Registered name."""
    backend: str
    client_noise: ClientNoise = honest_noise
    helper_noise: HelperNoise = as_given
    """What the second of two servers draws from, from the run's own source."""

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
        *,
        held: Held | None = None,
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
            name: protocol.join(about, self.client_noise(drawn, board.version, number))
            for number, name in enumerate(names)
        }
        session = protocol.open(about, requests, names, n_items=board.catalogue.n_items)
        server = WatchedSession(session=session, held=held or Held())
        late = set(names[staying:])
        sums = drive(server, clients, given, lambda step, name: server.asks_contributions and name in late)
        if held is not None and self.left.second_noise is not None:
            held.noised = whole_sums(sums, requests)  # the first server's, before its own noise
        return sums

    def known(
        self,
        rows: Sequence[Contribution],
        honest: Contribution,
        board: Board,
        requests: tuple[Request, ...],
        drawn: NoiseSource,
        *,
        held: Held | None = None,
    ) -> dict[str, IntArray]:
        """What the adversary takes off the sums: what the honest users give, and the noise of a second server.

        Args:
            rows: all that were carried: they decide how coarse the sums are.
            honest: users whose rows she knows.
            board: that was asked about.
            requests: of the round.
            drawn: the run's own source; she is, or has, the second server.
            held: where to write down what she knows if she is the first.

        Returns:
            By release name, int64, shape (rows, width), grid units.
        """
        left = sums_left(self.choice, self.protocol(sum(part.n_users for part in rows)))
        packing = left.packing(requests)
        shifts = packing.shifts
        sent = left.cut(honest, about_of(board), requests)
        sums = coarse_sums(sent, requests, shifts, backend=self.backend)
        if held is not None:
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
