"""What a protocol says of itself: answers to four questions, what is left without its messages, and a card.

The house never answers these questions by a protocol's name. A class states what is so of it as a class
variable: ``shows_rows = True``, ``second_server = True``, ``fits_any_fleet = True``, ``vouches = True``. What a
class does not state is taken to be not so, which is the careful answer to each. Only the class is looked at, never
an instance: its fields come from parameters, and those may come from a server. A device decides by none of these,
but by the registered name and its own policy (``fedboard.client.participation.promises``).

Nothing on a card decides about a guarantee, and no device reads one: what holds is in the protocol itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeGuard

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Contribution, Request
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.noise_shares import NoiseShares
from fedboard.common.protocol import AggregationProtocol, ProtocolClass
from fedboard.common.protocols.sums.residues import Packing

if TYPE_CHECKING:
    from fedboard.common.boards.roster import Roster
    from fedboard.common.protocols.sessions import Voucher


class HelpedProtocol(AggregationProtocol, Protocol):
    """A protocol of two servers."""

    def pinned(self, identity: bytes) -> Self:
        """The same protocol with a second server that must be this one.

        Args:
            identity: its Ed25519 public key, 32 bytes.

        Raises:
            InputError: no such key.
        """
        ...

    def helped_by(self, helper: Any) -> Self:
        """The same protocol with this way to the second server."""
        ...

    def helped_here(self, noise: NoiseSource) -> Self:
        """The same protocol with a fresh second server in this process: for simulations only."""
        ...


class VouchedProtocol(AggregationProtocol, Protocol):
    """A protocol whose clients may be vouched for by an authority, which its parameters then name."""

    def vouched(self, voucher: "Voucher") -> Self:
        """The same protocol on a device with an identity."""
        ...

    def among(self, roster: "Roster") -> Self:
        """The same protocol on a server, among the devices of a list.

        Raises:
            InputError: the list does not fit the protocol's parameters.
        """
        ...


def shows_rows(protocol: object) -> bool:
    """Whether the aggregator sees each user's rows, so that it can draw who takes part and is asked by ``form``.

    Args:
        protocol: a protocol, or its class.
    """
    return _states(protocol, "shows_rows")


def has_second_server(protocol: object) -> TypeGuard[HelpedProtocol]:
    """Whether it needs a second server, run by somebody else.

    Args:
        protocol: a protocol, or its class.
    """
    return _states(protocol, "second_server")


def fits_any_fleet(protocol: object) -> bool:
    """Whether its parameters are the same for any number of clients and users, and so say nothing of them.

    Args:
        protocol: a protocol, or its class.
    """
    return _states(protocol, "fits_any_fleet")


def can_be_vouched(protocol: object) -> TypeGuard[VouchedProtocol]:
    """Whether an authority may vouch for its clients.

    Args:
        protocol: a protocol, or its class.
    """
    return _states(protocol, "vouches")


def authority_of(protocol: AggregationProtocol) -> bytes | None:
    """Public key of the authority that vouches for a protocol's clients, 32 bytes; None where nobody does."""
    stated = protocol.parameters.get("vouched_by")
    return bytes.fromhex(stated) if stated else None


def with_second_server(protocol: AggregationProtocol, noise: NoiseSource) -> AggregationProtocol:
    """A protocol of two servers with a fresh second one in this process; any other protocol as it is.

    Args:
        protocol: public.
        noise: of the run; the second server draws from streams of its own.
    """
    return protocol.helped_here(noise) if has_second_server(protocol) else protocol


def _states(protocol: object, name: str) -> bool:
    stating = protocol if isinstance(protocol, type) else type(protocol)
    return getattr(stating, name, False) is True


Cut = Callable[[Contribution, bytes, Sequence[Request]], Contribution]
"""(rows, about the round, requests) -> the rows as they are sent. Private."""
SecondNoise = Callable[[Packing, NoiseSource], Mapping[str, IntArray]]
"""(of the round, second server's source) -> by release name, int64, (rows, width), units of 2^shift. Secret."""


def whole(contribution: Contribution, about: bytes, requests: Sequence[Request]) -> Contribution:
    """Every row is sent as it is."""
    return contribution


@dataclass(frozen=True, slots=True, kw_only=True)
class SumsLeft:
    """The sum of truncated contributions on a packing, and the noise on top."""

    packing: Callable[[Sequence[Request]], Packing]
    fewest: int
    """Clients whose contributions make a sum."""
    shares: NoiseShares | None = None
    """How clients draw their noise; None where they draw none."""
    noise_shares: Callable[[int], int] = lambda clients: 0
    """What the sums state, from the number of clients that gave."""
    noise_ratio: float = 1.0
    """Likewise."""
    cut: Cut = whole
    """What of a user's rows is sent."""
    second_noise: SecondNoise | None = None
    """What a second server adds; None where there is none."""


Parameters = Mapping[str, Any]
AUDITED_CLIENTS = 10
"""Of an audited session, where a protocol does not say otherwise; they host everybody."""


def no_neighbours(parameters: Parameters, clients: int) -> int:
    """Clients know of no other."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a protocol says of itself. Public."""

    protocol: ProtocolClass
    """Whose card it is."""
    trusted: str
    """Who must behave for the guarantee to hold, in a word or two; ``Trust`` says it in full."""
    server_sees: str
    """Of one user, in a few words."""
    bytes_by: str
    """What the bytes up grow with."""
    steps: str
    """Of a round."""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """Each parameter in a sentence, by name."""
    optional: Mapping[str, str] = field(default_factory=dict)
    """Likewise, those that a protocol has only where they are set."""
    neighbours: Callable[[Parameters, int], int] = no_neighbours
    """Of a client, from the protocol's parameters and the number of clients."""
    without_messages: Callable[[Any], SumsLeft] | None = None
    """What is left where its messages cancel; None: not known, so that only real sessions can be simulated."""
    audited_with: Parameters = field(default_factory=dict)
    """Settings under which an audited session has as little noise as the protocol admits."""
    audited_clients: int = AUDITED_CLIENTS
    """How many clients an audited session has."""
