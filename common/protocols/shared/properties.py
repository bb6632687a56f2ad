"""Four questions that the house asks of a protocol, and never answers by its name.

A class states what is so of it as a class variable: ``shows_rows = True``, ``second_server = True``,
``fits_any_fleet = True``, ``vouches = True``. What a class does not state is taken to be not so, which is the
careful answer to each. Only the class is looked at, never an instance: its fields come from parameters, and those
may come from a server. A device decides by none of these, but by the registered name and its own policy
(``fedboard.client.device.protocol_policy``).
"""

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeGuard

from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import AggregationProtocol

if TYPE_CHECKING:
    from fedboard.common.keys.roster import Roster
    from fedboard.common.protocols.shared.voucher import Voucher


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
