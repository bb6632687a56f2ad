"""What the cost model has to know of each protocol: its terms, its neighbourhoods, and how few act as many."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedboard.common.protocols.secure_sum.masking.neighbours import neighbourhood
from fedboard.simulations.comparing.costs import (
    TermsOf,
    added,
    alone,
    evaluated,
    factored,
    masking,
    unmasked,
)

Parameters = Mapping[str, Any]
_SPARE = 8
"""Clients beyond a neighbourhood that are tried."""


def _no_neighbours(parameters: Parameters, clients: int) -> int:
    return 0


def _no_crowd(parameters: Parameters, fleet: int, most: int) -> "Crowd":
    return Crowd(clients=most, settings={})


def _masking_neighbours(parameters: Parameters, clients: int) -> int:
    found = neighbourhood(clients, dropout=parameters["dropout"], colluding=parameters["colluding"])
    return found.size


def _crowd(parameters: Parameters, fleet: int, most: int) -> "Crowd":
    """With as many dropouts as may be, hardly a smaller neighbourhood than everybody bears them."""
    wanted = neighbourhood(fleet, dropout=parameters["dropout"], colluding=parameters["colluding"])
    for clients in range(min(wanted.size + 1, most), min(wanted.size + _SPARE, most) + 1):
        colluding = round(wanted.colluding * clients / (wanted.size + 1)) / clients
        settings = {"colluding": colluding, "dropout": (1.0 - colluding) / 2 - 1.0 / clients}
        if _masking_neighbours(settings, clients) >= wanted.size:
            break
    return Crowd(clients=clients, settings=settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Few clients with the neighbourhoods of many, and as many shares needed as there."""

    clients: int
    settings: Parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of protocol, as the cost model sees it."""

    server: TermsOf
    client: TermsOf = alone
    neighbours: Callable[[Parameters, int], int] = _no_neighbours
    """Of a client, from the protocol's parameters and the number of clients."""
    crowd: Callable[[Parameters, int, int], Crowd] = _no_crowd
    """Few clients with a fleet's neighbourhoods: from parameters, clients of the fleet, clients here at most."""


_MASKED = Kind(server=unmasked, client=masking, neighbours=_masking_neighbours, crowd=_crowd)
_KINDS: Mapping[str, Kind] = {
    "trusted": Kind(server=factored),
    "secure-sum": _MASKED,
    "distributed-dp": _MASKED,
    "two-server": Kind(server=evaluated),
    "local": Kind(server=added),
}


def kind_of(protocol: str) -> Kind:
    """The kind of a protocol by its name; one that is not known here is taken for a sum of whole vectors."""
    return _KINDS.get(protocol, Kind(server=added))


__all__ = ["Kind", "kind_of"]
