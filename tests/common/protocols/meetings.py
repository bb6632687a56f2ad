"""Sessions of any protocol with everything at hand: the server's side, the clients' sides and what they give."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedboard.common.arrays import BitArray, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.contribution import Contribution, Request
from fedboard.common.privacy.releases.noise import NoiseSource, NoiseStream
from fedboard.common.protocol import AggregationProtocol, ClientSession, Given, ServerSession
from fedboard.common.protocols.registry import sized_protocol
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.common.protocols.sums.residues import Packing, coarse_sums
from fedboard.common.protocols.two_server.helper import LocalHelper
from fedboard.common.protocols.two_server.protocol import TwoServer
from fedboard.simulations.sessions.choice import chosen_class
from fedboard.simulations.sessions.session import Lost, drive, nobody_lost
from tests.common.algorithms.conftest import N_ITEMS, N_USERS, a_prepared_board, a_task, population

TASK = a_task()
BOARDS = {"preparation": TASK.first_board(a_prepared_board(TASK).catalogue), "items": a_prepared_board(TASK)}
"""The bounds of the first fit 32 bits as they are; those of the second are met by a coarser grid."""
SPLIT = (0, 10, 18, 26, 33, 39, N_USERS)
ABOUT = b"run 1, round 1, this board"
Sums = Mapping[str, IntArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentStream(NoiseStream):
    """Draws of exactly nothing, through the code that draws noise: each word is the one whose quantile is zero."""

    key: bytes = field(default=bytes(32), repr=False)

    def bits(self, offset: int, count: int) -> BitArray:
        return np.full(count, (1 << 63) - 1, dtype=np.uint64)

    def normal(self, offset: int, count: int) -> FloatArray:
        return np.zeros(count)


@dataclass(frozen=True)
class SilentNoise:
    """A source that takes the noise out of a session, so that what is left can be compared to the last bit."""

    private: ClassVar[bool] = False
    label: ClassVar[str] = "none: for a test"

    def describe(self) -> dict[str, Any]:
        return {"noise": self.label, "private": self.private}

    def stream(self, name: str) -> NoiseStream:
        return SilentStream()


@dataclass(frozen=True, kw_only=True)
class Case:
    """A protocol under the contract, and what it claims beyond it."""

    make: Callable[[int], AggregationProtocol]
    """From the number of clients."""
    hides_ratings: bool = True
    """Whether no message's size depends on how many ratings there are."""
    shares: Callable[[Any], int] = lambda _: 0
    """How many clients' noise is stated to be in the sums."""
    spread: Callable[[Any], float] = lambda _: 0.0
    """Deviation of what the protocol's own noise adds to a number, in deviations of its release."""


def registered(name: str, **settings: object) -> Callable[[int], AggregationProtocol]:
    """A protocol of the registry, sized for a few clients and all users."""
    return lambda clients: sized_protocol(name, clients=clients, users=N_USERS, settings=settings)


def two_servers(clients: int) -> TwoServer:
    """Two servers in this process, the second of which draws noise of exactly nothing."""
    sized = TwoServer.sized(clients=clients, users=N_USERS, settings={})
    return sized.helped_by(LocalHelper(SilentNoise()))


@dataclass
class Meeting:
    """One session."""

    protocol: AggregationProtocol
    requests: tuple[Request, ...]
    given: Mapping[str, Given]
    server: ServerSession
    clients: dict[str, ClientSession]
    noise: Mapping[str, NoiseSource]
    about: bytes

    def finish(self, lost: Lost = nobody_lost) -> Sums:
        """Carry all messages; the sums."""
        return self.told(drive(self.server, self.clients, self.given, lost))

    def told(self, sums: Any) -> Sums:
        """All rows of the sums."""
        return whole_sums(sums, self.requests)

    def steps(self) -> Iterator[dict[str, bytes]]:
        """Each step's messages; whoever iterates has the server take replies, then the step is closed."""
        more = True
        while more:
            yield dict(self.server.outgoing())
            more = self.server.proceed()

    def reply(self, name: str, message: bytes) -> bytes:
        """What a client says to this step's message."""
        asks = self.server.asks_contributions
        return self.clients[name].answer(message, self.given[name] if asks else None)

    def take_all(self, messages: Mapping[str, bytes], *, but: Sequence[str] = ()) -> None:
        """The server takes everybody's reply but these."""
        for name, message in messages.items():
            if name not in but:
                self.server.take(name, self.reply(name, message))

    def resumed(self, name: str) -> ClientSession:
        """The client's side made anew from what it has written."""
        return self.protocol.resume(self.about, self.noise[name], self.clients[name].to_bytes())

    def expected(self, names: Sequence[str] | None = None) -> Sums:
        """The trusted sum over these clients, on the grid of the protocol; everybody if None."""
        shifts = shifts_of(self.protocol, self.requests)
        total = {r.name: np.zeros((r.release.rows, r.release.width), dtype=np.int64) for r in self.requests}
        for name in self.given if names is None else names:
            for key, part in coarse_sums(self.given[name].contribution, self.requests, shifts).items():
                total[key] += part << shifts[key]
        return total


def example(file: str, name: str) -> Callable[[int], AggregationProtocol]:
    """A protocol of the examples folder."""
    path = Path(__file__).parents[3] / "examples" / file
    chosen = chosen_class(f"{path}:{name}")
    return lambda clients: chosen.sized(clients=clients, users=N_USERS, settings={})


def shifts_of(protocol: AggregationProtocol, requests: Sequence[Request]) -> dict[str, int]:
    """The low bits that the protocol leaves out of each user's numbers: none, or those of its packing."""
    if "most_users" not in protocol.parameters:
        return {request.name: 0 for request in requests}
    if hasattr(protocol, "packing"):
        return dict(protocol.packing(requests).shifts)
    return dict(Packing.of(requests, most_users=protocol.parameters["most_users"]).shifts)


def rows_of(board: Board, start: int, stop: int, *, seed: int = 0) -> Contribution:
    """What users ``start:stop`` give."""
    return TASK.contribute(population(seed).rows(start, stop), board, TASK.requests(board))


def meeting(
    case: Case,
    board: Board,
    *,
    split: Sequence[int] = SPLIT,
    about: bytes = ABOUT,
    seed: int = 0,
    noise: Callable[[int], NoiseSource] = lambda _: SilentNoise(),
) -> Meeting:
    """A session that nobody has spoken in yet.

    Args:
        case: the protocol.
        board: what is asked about.
        split: bounds of the clients' users.
        about: of the round.
        seed: of the ratings.
        noise: of client number k.
    """
    requests = TASK.requests(board)
    bounds = list(pairwise(split))
    given = {
        f"client-{k}": Given(contribution=rows_of(board, start, stop, seed=seed), requests=requests)
        for k, (start, stop) in enumerate(bounds)
    }
    protocol, sources = case.make(len(bounds)), {name: noise(k) for k, name in enumerate(given)}
    return Meeting(
        protocol=protocol,
        requests=requests,
        given=given,
        server=protocol.open(about, requests, tuple(given), n_items=N_ITEMS),
        clients={name: protocol.join(about, sources[name]) for name in given},
        noise=sources,
        about=about,
    )


def assert_same(found: Sums, expected: Sums) -> None:
    """To the last bit."""
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
