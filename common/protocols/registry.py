"""The aggregation protocols by name: one line each, whose module says all the rest."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from fedboard.common.checks import require_one_of

if TYPE_CHECKING:
    from fedboard.common.protocol import AggregationProtocol, ProtocolClass
    from fedboard.common.protocols.properties import Card

_CLASSES: Mapping[str, str] = {
    "trusted": "trusted:Trusted",
    "secure-sum": "secure_sum.protocol:SecureSum",
    "distributed-dp": "distributed_dp:DistributedDp",
    "two-server": "two_server.protocol:TwoServer",
    "local": "local:Local",
}
"""Name to module and class; beside the class the module has ``CARD``.

Each is imported when it is asked for, so that a client loads what it uses.
"""

PROTOCOL_NAMES: Final = tuple(_CLASSES)
USUAL: Final = "trusted"
"""What a run takes that names none."""


def protocol_class(name: str) -> "ProtocolClass":
    """The protocol of this name.

    Raises:
        InputError: there is none.
    """
    return getattr(_module_of(name), _CLASSES[name].partition(":")[2])  # type: ignore[no-any-return]


def card_of(name: str) -> "Card":
    """What the protocol of this name says of itself, for tables and audits.

    Raises:
        InputError: there is none.
    """
    return _module_of(name).CARD  # type: ignore[no-any-return]


def _module_of(name: str) -> Any:
    require_one_of("protocol", name, PROTOCOL_NAMES)
    return import_module(f"fedboard.common.protocols.{_CLASSES[name].partition(':')[0]}")


def says(name: str, holds: Callable[[object], bool]) -> bool:
    """Whether something is so of the protocol of this name.

    Args:
        name: a registered one; of any other, such as a class of one's own in a file, nothing is so.
        holds: of ``fedboard.common.protocols.properties``.
    """
    return name in _CLASSES and holds(protocol_class(name))


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
