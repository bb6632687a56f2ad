"""Which protocol a run names: a registered one, or a researcher's own class in a module or a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from fedboard.common.errors import InputError
from fedboard.common.protocol import AggregationProtocol, ProtocolClass
from fedboard.common.protocols.properties import Card, SumsLeft, has_second_server
from fedboard.common.protocols.registry import PROTOCOL_NAMES, card_of, protocol_class
from fedboard.simulations.own_code import is_own, own_object

_NEEDED = ("sized", "from_parameters", "open", "join", "resume")
_NEEDED_OF_TWO = ("pinned", "helped_by", "helped_here")
_UNSAID = "see its statement"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolRecipe:
    """How to make a protocol in any process. Public."""

    choice: str
    """As for ``chosen_class``."""
    parameters: Mapping[str, Any]
    backend: str

    @staticmethod
    def of(choice: str, protocol: AggregationProtocol, *, backend: str) -> "ProtocolRecipe":
        """The recipe of a protocol that was made from this choice."""
        return ProtocolRecipe(choice=choice, parameters=protocol.parameters, backend=backend)

    def make(self) -> AggregationProtocol:
        """The protocol."""
        return chosen_class(self.choice).from_parameters(self.parameters, backend=self.backend)


def chosen_class(choice: str) -> ProtocolClass:
    """The class of a protocol.

    Args:
        choice: a registered name, ``package.module:Class`` or ``path/to/file.py:Class``, whose code then runs.

    Raises:
        InputError: there is none, or it is no protocol.
    """
    if not is_own(choice):
        return protocol_class(choice)
    found = own_object(choice, "protocol")
    if not isinstance(found, type):
        place, _, name = choice.rpartition(":")
        raise InputError(f"protocol {choice!r}: there is no class {name!r} in {place}")
    needed = (*_NEEDED, *(_NEEDED_OF_TWO if has_second_server(found) else ()))
    missing = [method for method in needed if not hasattr(found, method)]
    missing += sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise InputError(
            f"protocol {choice!r} is not one: it lacks {', '.join(missing)}; "
            "see docs/guide/writing-a-protocol.md"
        )
    return cast(ProtocolClass, found)


def chosen_card(choice: str) -> Card:
    """The card of a registered protocol; of any other one that leaves to its own statement what is to be said.

    Args:
        choice: as for ``chosen_class``.

    Raises:
        InputError: there is none, or it is no protocol.
    """
    if choice in PROTOCOL_NAMES:
        return card_of(choice)
    own = chosen_class(choice)
    return Card(protocol=own, trusted=_UNSAID, server_sees=_UNSAID, bytes_by="?", steps="?")


def sums_left(choice: str, protocol: AggregationProtocol) -> SumsLeft:
    """What is left of a protocol's sums where its messages are left out.

    Args:
        choice: as for ``chosen_class``.
        protocol: made from it.

    Raises:
        InputError: that is not known.
    """
    card = chosen_card(choice)
    if card.without_messages is None:
        raise InputError(
            f"it is not known what is left of protocol {protocol.name!r} without its messages; take masks 'real'"
        )
    return card.without_messages(protocol)
