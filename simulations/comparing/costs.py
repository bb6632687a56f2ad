"""What a session costs at sizes that were not run: terms of each kind of protocol, rates fitted to real sessions.

Seconds or bytes = sum over terms of amount x rate, every rate >= 0. The amounts are what the protocol does (masks
to expand, keys to evaluate, rows to add); the rates are those of the machine that ran the sessions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

_LEAST = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSize:
    """What a session's costs depend on. Public."""

    clients: int
    dropped: int
    """Clients that vanish when their contributions are asked for."""
    neighbours: int
    """Peers that a client shares masks and secrets with; 0 where there are none."""
    numbers: int
    """In the sums of the round."""
    ratings: float
    """That a client hosts."""
    width: int
    """Numbers of all releases for one item."""
    slots: int = 0
    """Items that a client's sparse message has room for; 0 where messages are not sparse."""

    @property
    def stayed(self) -> int:
        """Clients whose contributions are in the sums."""
        return self.clients - self.dropped


Terms = Mapping[str, float]
TermsOf = Callable[[SessionSize], Terms]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Fitted rates."""

    terms: TermsOf
    rates: Mapping[str, float]
    """Cost of one unit of each term."""
    worst_error: float
    """Largest relative difference to a session that it was fitted to."""

    def cost(self, size: SessionSize) -> float:
        """Of a session of this size."""
        return float(sum(self.rates[name] * amount for name, amount in self.terms(size).items()))


def fit_costs(terms: TermsOf, sizes: Sequence[SessionSize], costs: Sequence[float]) -> CostModel:
    """Rates >= 0 with the least sum of squared relative errors.

    Args:
        terms: of the kind of protocol.
        sizes: of the sessions that were run.
        costs: what each cost, > 0.
    """
    names = list(terms(sizes[0]))
    found = np.maximum(np.asarray(costs, dtype=np.float64), _LEAST)
    amounts = np.array([[terms(size)[name] for name in names] for size in sizes]) / found[:, None]
    scale = np.where(amounts.max(axis=0) > 0, amounts.max(axis=0), 1.0)
    solution, _ = nnls(amounts / scale, np.ones(len(found)))
    errors = np.abs(amounts / scale @ solution - 1.0)
    rates = dict(zip(names, (solution / scale).tolist(), strict=True))
    return CostModel(terms=terms, rates=rates, worst_error=float(errors.max()))


def added(size: SessionSize) -> Terms:
    """Server: every message is a vector of all numbers."""
    return {"session": 1.0, "client": size.stayed, "added": size.stayed * size.numbers}


def factored(size: SessionSize) -> Terms:
    """Server: every message is rows, whose products are summed."""
    ratings = size.stayed * size.ratings
    return {"session": 1.0, "client": size.stayed, "product": ratings * size.width}


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


def evaluated(size: SessionSize) -> Terms:
    """Servers: each client's keys are read, and evaluated on all items of their bins."""
    return {
        "session": 1.0,
        "client": size.stayed,
        "read": size.stayed * size.slots,
        "evaluated": size.stayed * size.numbers,
    }


def alone(size: SessionSize) -> Terms:
    """Client: one that knows of no other."""
    return {"client": 1.0, "number": size.numbers}


def masking(size: SessionSize) -> Terms:
    """Client: keys agreed and secrets shared with each neighbour, and a mask added for each."""
    return {
        "client": 1.0,
        "number": size.numbers,
        "neighbour": size.neighbours,
        "shared": size.neighbours**2,
        "masked": size.neighbours * size.numbers,
    }


def carried(size: SessionSize) -> Terms:
    """Client: bytes; all numbers, and something for each neighbour."""
    return {"client": 1.0, "number": size.numbers, "neighbour": size.neighbours}


__all__ = [
    "CostModel",
    "SessionSize",
    "Terms",
    "TermsOf",
    "added",
    "alone",
    "carried",
    "evaluated",
    "factored",
    "fit_costs",
    "masking",
    "unmasked",
]
