"""A protocol's card: what it says of itself for tables, large simulations and audits.

Nothing on a card decides about a guarantee, and no device reads one: what holds is in the protocol itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedboard.common.protocol import ProtocolClass
from fedboard.common.protocols.shared.properties import SumsLeft

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
