"""What a secure sum says of itself, and what it has in common with all masked sums."""

from collections.abc import Mapping

from fedboard.common.protocols.secure_sum.neighbours import neighbourhood
from fedboard.common.protocols.secure_sum.protocol import SecureSum
from fedboard.common.protocols.secure_sum.rules import ExactNumbers
from fedboard.common.protocols.shared.card import Card, Parameters
from fedboard.common.protocols.shared.properties import SumsLeft

MEANINGS: Mapping[str, str] = {
    "most_users": "Users whose contributions the sums have room for: more make the packing coarser.",
    "survivors": "Fewest clients whose contributions make a sum; with fewer the round is given up.",
    "dropout": "Largest share of the clients that may drop out of a round.",
    "colluding": "Largest share of the clients that may collude with the server.",
}
OPTIONAL: Mapping[str, str] = {
    "vouched_by": "Public key of who vouches for devices; with it the masks hold against a server that lies, too.",
}
AUDITED_WITH: Parameters = {"colluding": 0.0, "survivors": 7}
"""Without clients that collude, the noise that is booked is that of the smallest set of survivors, exactly."""


def neighbours(parameters: Parameters, clients: int) -> int:
    """Peers that a client of such a session shares masks and secrets with."""
    return neighbourhood(clients, dropout=parameters["dropout"], colluding=parameters["colluding"]).size


def _left(protocol: SecureSum) -> SumsLeft:
    rules = protocol.rules
    exact = ExactNumbers(most_users=rules.most_users)
    return SumsLeft(packing=exact.packing, fewest=rules.fewest, gives_at_once=False)


CARD = Card(
    protocol=SecureSum,
    trusted="the server's noise",
    server_sees="the sum over everybody",
    bytes_by="items x rank, + neighbours",
    steps="4 or 5",
    meanings=MEANINGS,
    optional=OPTIONAL,
    neighbours=neighbours,
    without_messages=_left,
    audited_with=AUDITED_WITH,
)
