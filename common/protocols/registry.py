"""The aggregation protocols by name: one line each, whose folder says all the rest."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from fedboard.common.checks import require_one_of

if TYPE_CHECKING:
    from fedboard.common.protocol import AggregationProtocol, ProtocolClass
    from fedboard.common.protocols.shared.card import Card

_CLASSES: Mapping[str, str] = {
    "trusted": "Trusted",
    "secure-sum": "SecureSum",
    "distributed-dp": "DistributedDp",
    "two-server": "TwoServer",
    "local": "Local",
}
"""Name to the class in ``protocol.py`` of the folder of that name, ``_`` for ``-``; its ``card.py`` has ``CARD``.

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
    return getattr(_part_of(name, "protocol"), _CLASSES[name])  # type: ignore[no-any-return]


def card_of(name: str) -> "Card":
    """What the protocol of this name says of itself, for tables and audits.

    Raises:
        InputError: there is none.
    """
    return _part_of(name, "card").CARD  # type: ignore[no-any-return]


def _part_of(name: str, part: str) -> Any:
    require_one_of("protocol", name, PROTOCOL_NAMES)
    return import_module(f"fedboard.common.protocols.{name.replace('-', '_')}.{part}")


def says(name: str, holds: Callable[[object], bool]) -> bool:
    """Whether something is so of the protocol of this name.

    Args:
        name: a registered one; of any other, such as a class of one's own in a file, nothing is so.
        holds: of ``fedboard.common.protocols.shared.properties``.
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
