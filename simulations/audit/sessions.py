"""The sessions of an audited protocol: few clients host everybody, with as little noise as the protocol admits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.board import Board
from fedboard.common.contribution import Contribution, Request
from fedboard.common.privacy.releases.gaussian import GaussianRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol, ExactSums, Given
from fedboard.common.protocols.sums.stacking import joined, row_range
from fedboard.common.protocols.sums.truncated import coarse_sums
from fedboard.common.protocols.two_server.helper import lattice_noise
from fedboard.simulations.sessions.choice import chosen_class
from fedboard.simulations.sessions.clients import noise_of
from fedboard.simulations.sessions.driving import drive
from fedboard.simulations.sessions.remains import Remains, remains_of
from fedboard.simulations.sessions.runtime import about_of
from fedboard.simulations.sessions.second_server import with_second_server

_USUAL_CLIENTS, _SURVIVORS = 10, 7
_MASKED: Mapping[str, Any] = {"colluding": 0.0, "survivors": _SURVIVORS}
_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "distributed-dp": {**_MASKED, "honest": _SURVIVORS},
    "secure-sum": _MASKED,
}
"""Without clients that collude, the noise that is booked is that of the smallest set of survivors, exactly."""
_CLIENTS: Mapping[str, int] = {"local": 1}
_NO_BOARD = -1
ClientNoise = Callable[[NoiseSource, int, int], NoiseSource]
"""(of the run, version of the board, client) -> the client's own."""


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

    def protocol(self, n_users: int) -> AggregationProtocol:
        """With room for so many users.

        Raises:
            InputError: no such protocol.
        """
        return chosen_class(self.choice).sized(
            clients=self._n_clients,
            users=max(self._n_clients, n_users),
            settings=_SETTINGS.get(self.choice, {}),
            backend=self.backend,
        )

    def carry(
        self, rows: Sequence[Contribution], board: Board, requests: tuple[Request, ...], drawn: NoiseSource
    ) -> ExactSums:
        """A real session over these rows, in which as many clients are lost as may be.

        Args:
            rows: that keep their bounds. Private.
            board: that is asked about.
            requests: of the round.
            drawn: the run's own source.
        """
        everybody, about = joined(rows), about_of(board)
        protocol = with_second_server(self.protocol(everybody.n_users), drawn)
        names = [f"client-{number}" for number in range(self._n_clients)]
        staying = self._remains.fewest
        bounds = np.minimum(np.arange(self._n_clients + 1), staying) * everybody.n_users // staying
        given = {
            name: Given(contribution=row_range(everybody, int(start), int(stop)), requests=requests)
            for name, start, stop in zip(names, bounds[:-1], bounds[1:], strict=True)
        }
        clients = {
            name: protocol.join(about, self.client_noise(drawn, board.version, number))
            for number, name in enumerate(names)
        }
        server = protocol.open(about, requests, names, n_items=board.catalogue.n_items)
        late = set(names[staying:])
        return drive(server, clients, given, lambda step, name: server.asks_contributions and name in late)

    def known(
        self,
        rows: Sequence[Contribution],
        honest: Contribution,
        board: Board,
        requests: tuple[Request, ...],
        drawn: NoiseSource,
    ) -> dict[str, IntArray]:
        """What the adversary takes off the sums: what the honest users give, and the noise of a second server.

        Args:
            rows: all that were carried: they decide how coarse the sums are.
            honest: users whose rows she knows.
            board: that was asked about.
            requests: of the round.
            drawn: the run's own source; she is, or has, the second server.

        Returns:
            By release name, int64, shape (rows, width), grid units.
        """
        remains = remains_of(self.protocol(sum(part.n_users for part in rows)))
        shifts = remains.packing(requests).shifts
        sent = remains.cut(honest, about_of(board), requests)
        sums = coarse_sums(sent, requests, shifts, backend=self.backend)
        for request in requests if remains.most_items is not None else ():
            stream = drawn.stream(f"helper {request.name}")
            sums[request.name] += lattice_noise(request.release, stream, shift=shifts[request.name])
        return {name: values << shifts[name] for name, values in sums.items()}

    def shares(self, release: GaussianRelease, drawn: NoiseSource) -> IntArray:
        """The noise of the clients that stay, for a release that is drawn outside of any session.

        Args:
            release: with any number of rows.
            drawn: the run's own source.

        Returns:
            int64, shape (rows, width), grid units; zeros where clients draw none.
        """
        noise = np.zeros((release.rows, release.width), dtype=np.int64)
        if self._remains.shares is None:
            return noise
        for number in range(self._remains.fewest):
            stream = self.client_noise(drawn, _NO_BOARD, number).stream(release.name)
            noise += self._remains.shares.draw(release, stream, shift=0)
        return noise

    @property
    def _n_clients(self) -> int:
        return _CLIENTS.get(self.choice, _USUAL_CLIENTS)

    @cached_property
    def _remains(self) -> Remains:
        return remains_of(self.protocol(1))


__all__ = ["ClientNoise", "Sessions", "honest_noise"]
