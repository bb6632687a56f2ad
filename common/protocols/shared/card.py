"""A protocol's card: what it says of itself for tables, cost models, large simulations and audits.

Nothing on a card decides about a guarantee, and no device reads one: what holds is in the protocol itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedboard.common.protocol import ProtocolClass
from fedboard.common.protocols.shared.costs import TermsOf, added, alone
from fedboard.common.protocols.shared.sums_left import SumsLeft

Parameters = Mapping[str, Any]
AUDITED_CLIENTS = 10
"""Of an audited session, where a protocol does not say otherwise; they host everybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Few clients with the neighbourhoods of many, and as many shares needed as there."""

    clients: int
    settings: Parameters


def no_neighbours(parameters: Parameters, clients: int) -> int:
    """Clients know of no other."""
    return 0


def no_crowd(parameters: Parameters, fleet: int, most: int) -> Crowd:
    """As many as may be: without neighbourhoods a client does the same in any session."""
    return Crowd(clients=most, settings={})


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
    server_terms: TermsOf = added
    """What the work of all servers grows with."""
    client_terms: TermsOf = alone
    """What a client's work grows with."""
    neighbours: Callable[[Parameters, int], int] = no_neighbours
    """Of a client, from the protocol's parameters and the number of clients."""
    crowd: Callable[[Parameters, int, int], Crowd] = no_crowd
    """Few clients with a fleet's neighbourhoods: from parameters, clients of the fleet, clients here at most."""
    without_messages: Callable[[Any], SumsLeft] | None = None
    """What is left where its messages cancel; None: not known, so that only real sessions can be simulated."""
    audited_with: Parameters = field(default_factory=dict)
    """Settings under which an audited session has as little noise as the protocol admits."""
    audited_clients: int = AUDITED_CLIENTS
    """How many clients an audited session has."""
