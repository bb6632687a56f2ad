"""What an aggregation protocol is: how contributions become one sum, and whom that asks to be trusted.

A protocol is a pair of state machines that exchange bytes. The server's side of one round is a ``ServerSession``, a
client's side a ``ClientSession``; neither knows where the other runs. The engine, the Flower runtimes and the tests
carry the messages.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Contribution, Request
from fedboard.common.privacy.releases.noise import NoiseSource


class NoiseAt(StrEnum):
    """Where the noise of a release is drawn."""

    SERVER = "server"
    """By whoever has the exact sum, after it was added up."""
    SHARES = "shares"
    """In shares by the clients, so that the sum holds the noise before anybody sees it."""
    CLIENT = "client"
    """In full by each client: nobody is trusted, and the noise of all clients is in the sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The trust model, in sentences that the certificate carries as they are."""

    server_sees: str
    """What the server, or each of them, sees of one client."""
    network_sees: str
    """What somebody sees who watches the network, or keeps what passes the transport."""
    clients_see: str
    """What other clients see."""
    privacy_relies_on: str
    """Who must behave for the guarantee to hold."""
    utility_relies_on: str
    """Who must behave for the board to be any good."""
    malicious_client: str
    """What one client can do to the sum, and what bounds it."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(getattr(self, field.name) for field in fields(self))


class ExactSums(Protocol):
    """The sums of one round, still secret: they leave only through a booked release."""

    def block(self, requests: Sequence[Request], start: int, stop: int) -> dict[str, IntArray]:
        """Some rows of the sums.

        Args:
            requests: which sums; of one round.
            start: first row.
            stop: one past the last.

        Returns:
            By release name, int64, shape (stop - start, width), on the release's grid. Secret.
        """
        ...

    @property
    def rejected_rows(self) -> int:
        """Rows left out because they broke a bound; known to the aggregator only."""
        ...

    @property
    def noise_shares(self) -> int:
        """How many honest clients' shares of the noise are in the sums at least; 0 where they are exact."""
        ...

    @property
    def residue_bits(self) -> Mapping[str, int]:
        """By release name, where the sums are known modulo 2^bits only; see ``BookedRelease.publish``."""
        ...

    @property
    def noise_ratio(self) -> float:
        """Deviation of all noise in what will be published, over the booked one; >= 1. Public."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Given:
    """What one client gives to a round. Private."""

    contribution: Contribution
    """Its rows."""
    requests: tuple[Request, ...]
    """What the board asks for."""


class ServerSession(Protocol):
    """The server's side of one round: steps, each of which asks some clients and takes their replies.

    It lives in memory only. Whoever carries the messages calls ``outgoing``, ``take`` for each reply, and
    ``proceed`` when all have replied or the step's time is over, until ``proceed`` says that no step follows.
    """

    @property
    def asks_contributions(self) -> bool:
        """Whether this step asks for what clients give; the board travels with its messages."""
        ...

    def outgoing(self) -> Mapping[str, bytes]:
        """The message of this step to each client that is asked. Asking twice gives the same bytes."""
        ...

    def take(self, client: str, reply: bytes) -> None:
        """Take a client's reply to this step.

        Args:
            client: its authenticated identity.
            reply: from a client that need not be honest.

        Raises:
            RefusedError: it does not count; nothing has changed.
        """
        ...

    def proceed(self) -> bool:
        """Close the step; whoever has not replied is out. Whether another step follows.

        Raises:
            TooFewAnswersError: too few replied; the round is given up and nothing of it can be learnt.
        """
        ...

    def sums(self) -> ExactSums:
        """The sums over all clients that stayed, once no step follows."""
        ...


class ClientSession(Protocol):
    """A client's side of one round."""

    def answer(self, message: bytes, given: Given | None) -> bytes:
        """The reply to one step.

        The same message gets the same bytes again; each step is answered once.

        Args:
            message: from a server that need not be honest.
            given: what the client gives, where the step asks for it. Private.

        Raises:
            PrivacyError: a row breaks its declared bound; nothing is sent.
            RefusedError: the message is malformed, out of turn, or asks for what would tell too much.
        """
        ...

    def to_bytes(self) -> bytes:
        """The session's state, as ``AggregationProtocol.resume`` takes it; it may hold secrets."""
        ...


class AggregationProtocol(Protocol):
    """Turns the contributions of many clients into sums.

    Guarantee: for every request the session's sums are, to the last bit, the sum over the rows of all clients that
    stayed, plus the noise that the protocol's clients or helpers add; in any order and for any split of the users
    into clients. ``tests/common/protocols/test_contract.py`` holds every protocol to it.

    A class that names it as its base needs to say nothing of noise that the server draws.
    """

    NAME: ClassVar[str]

    @property
    def name(self) -> str:
        """Registered name."""
        return self.NAME

    @property
    def noise_at(self) -> NoiseAt:
        """Where the noise is drawn that the guarantee counts."""
        return NoiseAt.SERVER

    @property
    @abstractmethod
    def trust(self) -> Trust:
        """Who sees what, who must be trusted."""
        ...

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """Public and JSON-able; together with ``name`` they rebuild the protocol on a client."""
        ...

    def noise(self, drawn: NoiseSource) -> NoiseSource:
        """What the ledger books as the source of noise, given the server's own: that, or the clients' shares."""
        return drawn

    @abstractmethod
    def open(
        self, about: bytes, requests: Sequence[Request], clients: Sequence[str], *, n_items: int
    ) -> ServerSession:
        """Begin a round on the server.

        Args:
            about: run, round and board (``Question.about``): every key and message is bound to it.
            requests: of the round.
            clients: identities of those that are there.
            n_items: of the catalogue.

        Raises:
            InputError: the protocol cannot carry these requests, or not from so many clients.
            TooFewAnswersError: fewer clients than it needs.
        """
        ...

    @abstractmethod
    def join(self, about: bytes, noise: NoiseSource) -> ClientSession:
        """Begin a round on a client.

        Args:
            about: as on the server.
            noise: source of the client's own noise, if the protocol has it draw some.
        """
        ...

    @abstractmethod
    def resume(self, about: bytes, noise: NoiseSource, state: bytes) -> ClientSession:
        """Go on with a session after a restart.

        Args:
            about: as on the server.
            noise: as for ``join``.
            state: from ``to_bytes``.
        """
        ...


class ProtocolClass(Protocol):
    """How a protocol is made.

    What else is so of it, it may state by class variables (``fedboard.common.protocols.properties``).
    """

    def sized(
        self, *, clients: int, users: int, settings: Mapping[str, Any], backend: str = "numpy"
    ) -> AggregationProtocol:
        """For a fleet, whose public parameters it chooses; settings override them by name.

        Args:
            clients: how many there are.
            users: how many they host in all, at most.
            settings: by parameter name.
            backend: which kernels compute; never changes the sums.

        Raises:
            InputError: an unknown setting, a value out of range, or a fleet that this protocol cannot serve.
        """
        ...

    def from_parameters(
        self, parameters: Mapping[str, Any], *, backend: str = "numpy"
    ) -> AggregationProtocol:
        """From what a server states, which need not be sound.

        Args:
            parameters: by name; must be all of the protocol's.
            backend: which kernels compute.

        Raises:
            InputError: not the parameters of this protocol, or not safe ones.
        """
        ...
