"""Real sessions with a stopwatch: bytes and CPU seconds of each step, on both sides.

CPU time, so that other work on the machine counts little. Everything that a protocol does is timed, its
cryptography and the reading of the sums included; carrying the messages is not.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from time import process_time

from fedboard.common.contribution import Request
from fedboard.common.privacy.releases.noise import SecureNoise
from fedboard.common.protocol import AggregationProtocol, ClientSession, ExactSums, Given, ServerSession
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.simulations.comparing.workload import Workload, spread
from fedboard.simulations.sessions.driving import drive

_ABOUT = (b"comparison of protocols, session %d" % number for number in count())


@dataclass(slots=True, kw_only=True)
class StepTimes:
    """What one step cost."""

    asks_contributions: bool
    up: list[int] = field(default_factory=list)
    """Bytes of each reply."""
    down: list[int] = field(default_factory=list)
    """Bytes of each message."""
    seconds: list[float] = field(default_factory=list)
    """CPU seconds of each client that replied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCosts:
    """One client, over some steps: means over those that replied."""

    seconds: float = 0.0
    up: float = 0.0
    down: float = 0.0
    steps: int = 0

    def __add__(self, other: "ClientCosts") -> "ClientCosts":
        """Both."""
        return ClientCosts(
            seconds=self.seconds + other.seconds,
            up=self.up + other.up,
            down=self.down + other.down,
            steps=self.steps + other.steps,
        )


def client_costs(steps: Sequence[StepTimes]) -> ClientCosts:
    """Of one client that stays in all of these steps."""
    found = ClientCosts()
    for step in steps:
        found += ClientCosts(seconds=_mean(step.seconds), up=_mean(step.up), down=_mean(step.down), steps=1)
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


class Stopwatch:
    """A server's side that is timed, and the place where its clients' costs are noted."""

    def __init__(self, server: ServerSession, seconds: float) -> None:
        """``seconds`` is what opening it took."""
        self._server, self.server_seconds = server, seconds
        self.steps = [StepTimes(asks_contributions=server.asks_contributions)]

    @property
    def asks_contributions(self) -> bool:
        """As the server says."""
        return self._server.asks_contributions

    def outgoing(self) -> Mapping[str, bytes]:
        """The server's messages."""
        with self._timed():
            return self._server.outgoing()

    def take(self, client: str, reply: bytes) -> None:
        """One reply; the client's costs are in its own list by then."""
        self.steps[-1].up.append(len(reply))
        with self._timed():
            self._server.take(client, reply)

    def proceed(self) -> bool:
        """The next step, if there is one."""
        with self._timed():
            more = self._server.proceed()
        if more:
            self.steps.append(StepTimes(asks_contributions=self.asks_contributions))
        return more

    def sums(self) -> ExactSums:
        """The sums; reading them is timed by ``read``."""
        with self._timed():
            return self._server.sums()

    def read(self, sums: ExactSums, requests: Sequence[Request]) -> None:
        """Read all rows, as a release would."""
        with self._timed():
            whole_sums(sums, requests)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = process_time()
        try:
            yield
        finally:
            self.server_seconds += process_time() - began


@dataclass(frozen=True, slots=True)
class TimedClient:
    """A client's side that is timed."""

    client: ClientSession
    watch: Stopwatch

    def answer(self, message: bytes, given: Given | None) -> bytes:
        """The client's reply."""
        step = self.watch.steps[-1]
        step.down.append(len(message))
        began = process_time()
        reply = self.client.answer(message, given)
        step.seconds.append(process_time() - began)
        return reply

    def to_bytes(self) -> bytes:
        """The client's state."""
        return self.client.to_bytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A whole session."""

    clients: int
    dropped: int
    server_seconds: float
    steps: tuple[StepTimes, ...]

    @property
    def contribution_step(self) -> int:
        """Number of the step that asks for contributions."""
        return next(place for place, step in enumerate(self.steps) if step.asks_contributions)


def whole_session(
    protocol: AggregationProtocol, workload: Workload, *, clients: int, dropped: int
) -> Measured:
    """Run a session to its end; the last ``dropped`` clients vanish when their contributions are asked for."""
    names = [f"client-{number}" for number in range(clients)]
    gone = set(names[clients - dropped :])
    given = spread(workload.given(), names)
    watch, sides = _begun(protocol, workload, names)
    sums = drive(watch, sides, given, lambda step, client: watch.asks_contributions and client in gone)
    watch.read(sums, workload.requests)
    return Measured(
        clients=clients,
        dropped=dropped,
        server_seconds=watch.server_seconds,
        steps=tuple(watch.steps),
    )


def first_part(
    protocol: AggregationProtocol, workload: Workload, *, clients: int, sample: int
) -> ClientCosts:
    """Run a session until a sample of its clients has contributed: what a client costs so far.

    The session is given up there. A client's part with a large payload can be measured among many neighbours this
    way, without all of them carrying it.
    """
    names = [f"client-{number}" for number in range(clients)]
    watch, sides = _begun(protocol, workload, names)
    while not watch.asks_contributions:
        for name, message in watch.outgoing().items():
            watch.take(name, sides[name].answer(message, None))
        watch.proceed()
    given = spread(workload.given(), names)
    messages = watch.outgoing()
    for name in list(messages)[:sample]:
        watch.steps[-1].up.append(len(sides[name].answer(messages[name], given[name])))
    return client_costs(watch.steps[:-1]) + client_costs(watch.steps[-1:])


def _begun(
    protocol: AggregationProtocol, workload: Workload, names: Sequence[str]
) -> tuple[Stopwatch, dict[str, TimedClient]]:
    about, noise = next(_ABOUT), SecureNoise()
    began = process_time()
    server = protocol.open(about, workload.requests, names, n_items=workload.board.catalogue.n_items)
    watch = Stopwatch(server, process_time() - began)
    return watch, {name: TimedClient(protocol.join(about, noise), watch) for name in names}


__all__ = [
    "ClientCosts",
    "Measured",
    "StepTimes",
    "Stopwatch",
    "TimedClient",
    "client_costs",
    "first_part",
    "whole_session",
]
