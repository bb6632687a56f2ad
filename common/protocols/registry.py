"""The aggregation protocols by name: three lines each, whose module says all the rest."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fedboard.common.checks import require_one_of

if TYPE_CHECKING:
    from fedboard.common.protocol import AggregationProtocol, ProtocolClass
    from fedboard.common.protocols.properties import Card

PROTOCOL_NAMES: Final = ("trusted", "secure-sum", "distributed-dp", "two-server", "local")
USUAL: Final = "trusted"
"""What a run takes that names none."""


def card_of(name: str) -> "Card":
    """What the protocol of this name says of itself, for tables and audits.

    Its module is imported when it is asked for, so that a client loads what it uses.

    Raises:
        InputError: there is none.
    """
    require_one_of("protocol", name, PROTOCOL_NAMES)
    match name:
        case "trusted":
            from fedboard.common.protocols.trusted import CARD
        case "secure-sum":
            from fedboard.common.protocols.secure_sum.protocol import CARD
        case "distributed-dp":
            from fedboard.common.protocols.distributed_dp import CARD
        case "two-server":
            from fedboard.common.protocols.two_server.protocol import CARD
        case _:
            from fedboard.common.protocols.local import CARD
    return CARD


def protocol_class(name: str) -> "ProtocolClass":
    """The protocol of this name.

    Raises:
        InputError: there is none.
    """
    return card_of(name).protocol


def says(name: str, holds: Callable[[object], bool]) -> bool:
    """Whether something is so of the protocol of this name.

    Args:
        name: a registered one; of any other, such as a class of one's own in a file, nothing is so.
        holds: of ``fedboard.common.protocols.properties``.
    """
    return name in PROTOCOL_NAMES and holds(protocol_class(name))


def names_where(holds: Callable[[object], bool]) -> str:
    """The protocols of which something is so, for a sentence: ``one, other``."""
    return ", ".join(name for name in PROTOCOL_NAMES if says(name, holds))


def sized_protocol(
    name: str, *, clients: int, users: int, settings: Mapping[str, Any] | None = None, backend: str = "numpy"
) -> "AggregationProtocol":
    """A protocol for a fleet; see ``ProtocolClass.sized``.

    Raises:
        InputError: no such protocol, an unknown setting, or a fleet that it cannot serve.
    """
    chosen = protocol_class(name)
    return chosen.sized(clients=clients, users=users, settings=settings or {}, backend=backend)


def protocol_from(
    name: str, parameters: Mapping[str, Any], *, backend: str = "numpy"
) -> "AggregationProtocol":
    """The protocol that a server names, on a client; see ``ProtocolClass.from_parameters``.

    Raises:
        InputError: no such protocol, or parameters that are not sound.
    """
    return protocol_class(name).from_parameters(parameters, backend=backend)
