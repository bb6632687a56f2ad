"""Guarantees: what releases cost together, in the terms in which it is promised."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedboard.common.privacy.accounting import compose_mu, epsilon_of_events
from fedboard.common.privacy.events import Event, event_mu, event_rho

CURVE_DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
"""Where a certificate states epsilon beside the claim's own delta."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy for one unit under one adjacency. Every field is public."""

    epsilon: float
    """Privacy loss bound, natural-log units; >= 0."""
    delta: float
    """Probability that the bound fails; in (0, 1)."""
    adjacency: str
    """A value of ``Adjacency``; a string, so that a certificate with an unknown one can be read and
    refused.
    """
    unit: str = "user"
    """Whose presence is protected: one user with all her ratings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """What all releases cost together."""

    mu: float
    """Gaussian differential privacy: sqrt of the sum of squares of the releases' mu."""
    rho: float
    """Zero-concentrated differential privacy: sum of 1 / (2 z^2)."""
    epsilon: float
    """Exact epsilon at the claim's delta; never above the claim's epsilon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One point of the privacy curve of all releases together."""

    epsilon: float
    delta: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was checked. ``passed`` is the verdict, ``detail`` says what was found."""

    check: str
    passed: bool
    detail: str


def composition_of(events: Sequence[Event], delta: float) -> Composition:
    """Compose sound events. Epsilon is exact where all are Gaussian, else by dp-accounting; mu is then a bound.

    Args:
        events: public.
        delta: in (0, 1), where epsilon is stated. Public.
    """
    mu = compose_mu(event_mu(event) for event in events)
    rho = math.fsum(event_rho(event) for event in events)
    return Composition(mu=mu, rho=rho, epsilon=epsilon_of_events(events, delta))


def curve_of(events: Sequence[Event]) -> tuple[CurvePoint, ...]:
    """Epsilon at each of ``CURVE_DELTAS``."""
    return tuple(CurvePoint(epsilon=epsilon_of_events(events, delta), delta=delta) for delta in CURVE_DELTAS)


__all__ = ["CURVE_DELTAS", "Composition", "CurvePoint", "Finding", "Guarantee", "composition_of", "curve_of"]
