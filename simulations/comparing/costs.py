"""What a session costs at sizes that were not run: terms of a protocol's card, rates fitted to real sessions.

Seconds or bytes = sum over terms of amount x rate, every rate >= 0. The amounts are what the protocol does (masks
to expand, keys to evaluate, rows to add); the rates are those of the machine that ran the sessions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from fedboard.common.protocols.shared.costs import SessionSize, Terms, TermsOf

_LEAST = 1e-9


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
        terms: of the protocol.
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


def carried(size: SessionSize) -> Terms:
    """Client: bytes; all numbers, and something for each neighbour."""
    return {"client": 1.0, "number": size.numbers, "neighbour": size.neighbours}
