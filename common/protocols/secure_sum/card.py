"""What a secure sum says of itself, and what it has in common with all masked sums."""

from collections.abc import Mapping

from fedboard.common.protocols.secure_sum.masking.neighbours import neighbourhood
from fedboard.common.protocols.secure_sum.payload import ExactNumbers
from fedboard.common.protocols.secure_sum.protocol import SecureSum
from fedboard.common.protocols.shared.card import Card, Crowd, Parameters
from fedboard.common.protocols.shared.costs import SessionSize, Terms
from fedboard.common.protocols.shared.sums_left import SumsLeft

_SPARE = 8
"""Clients beyond a neighbourhood that are tried."""
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


def unmasked(size: SessionSize) -> Terms:
    """Server: keys and shares relayed between neighbours, a mask of its own removed for each client that stayed,
    and masks of all its neighbours for each that dropped.
    """
    return {
        "session": 1.0,
        "client": size.clients,
        "relayed": size.clients * size.neighbours,
        "reconstructed": size.clients * size.neighbours**2,
        "added": size.stayed * size.numbers,
        "agreed": size.dropped * size.neighbours,
        "removed": size.dropped * size.neighbours * size.numbers,
    }


def masking(size: SessionSize) -> Terms:
    """Client: keys agreed and secrets shared with each neighbour, and a mask added for each."""
    return {
        "client": 1.0,
        "number": size.numbers,
        "neighbour": size.neighbours,
        "shared": size.neighbours**2,
        "masked": size.neighbours * size.numbers,
    }


def neighbours(parameters: Parameters, clients: int) -> int:
    """Peers that a client of such a session shares masks and secrets with."""
    return neighbourhood(clients, dropout=parameters["dropout"], colluding=parameters["colluding"]).size


def crowd(parameters: Parameters, fleet: int, most: int) -> Crowd:
    """With as many dropouts as may be, hardly a smaller neighbourhood than everybody bears them."""
    wanted = neighbourhood(fleet, dropout=parameters["dropout"], colluding=parameters["colluding"])
    for clients in range(min(wanted.size + 1, most), min(wanted.size + _SPARE, most) + 1):
        colluding = round(wanted.colluding * clients / (wanted.size + 1)) / clients
        settings = {"colluding": colluding, "dropout": (1.0 - colluding) / 2 - 1.0 / clients}
        if neighbours(settings, clients) >= wanted.size:
            break
    return Crowd(clients=clients, settings=settings)


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
    server_terms=unmasked,
    client_terms=masking,
    neighbours=neighbours,
    crowd=crowd,
    without_messages=_left,
    audited_with=AUDITED_WITH,
)
