"""Guarantees: what releases cost together, in the terms in which it is promised.

The promise as odds: how often somebody is right at most who bets on one person, when a coin decided it.

The board page says the same by its own few lines (``client/page/script/seal/gaussian.js``, ``view/odds_view.js``);
a test holds one against the other.

Reference: Dong, Roth and Su (2022), arXiv:1905.02383, sec. 2 (mu); Kairouz, Oh and Viswanath (2015),
arXiv:1311.0776 (epsilon and delta alone); Nanayakkara et al. (2023), arXiv:2303.00738 (odds, not formulas).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedboard.common.privacy.accounting.exact import (
    compose_events,
    epsilon_by_library,
    epsilon_of_events,
    epsilon_through_renyi,
    epsilon_through_zcdp,
)
from fedboard.common.privacy.accounting.grouping import mechanisms_of, most_exposed
from fedboard.common.privacy.events import Event, event_rho, is_disjoint

CURVE_DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
"""Where a certificate states epsilon beside the claim's own delta."""
_LARGE_DELTA, _LARGE_EPSILON = 1e-2, 20.0


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

    @property
    def warnings(self) -> list[str]:
        """What is to be said of a promise that is next to none; by public numbers alone."""
        said = {
            f"Delta {self.delta:g} is large: with that probability nothing is promised. Usual is less than one "
            "over the number of users.": self.delta >= _LARGE_DELTA,
            f"Epsilon {self.epsilon:g} promises next to nothing: an attacker can become all but certain who is "
            "there. Usual is at most 10.": self.epsilon > _LARGE_EPSILON,
        }
        return [sentence for sentence, holds in said.items() if holds]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One point of the privacy curve of all releases together, and what looser accounting would make of it."""

    delta: float
    epsilon: float
    """By the tightest accounting there is: the exact curve, or loss distributions; without a plan what the budget
    guarantees there.
    """
    epsilon_rdp: float
    """Converted from Renyi orders, at the best of them."""
    epsilon_zcdp: float
    """Converted from zCDP: ``rho + 2 sqrt(rho log(1 / delta))``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """What all releases cost together."""

    mu: float
    """Gaussian differential privacy: sqrt of the sum of squares of the releases' mu. Without a plan what all
    releases may count as Gaussian ones.
    """
    rho: float
    """Zero-concentrated differential privacy: sum of 1 / (2 z^2). Without a plan mu^2 / 2."""
    exact: bool
    """Whether mu describes the releases exactly: all are planned, and Gaussian with full participation or
    disjoint cohorts. Otherwise of a plan mu and rho are upper bounds, and epsilon comes from loss distributions;
    without a plan epsilon is the budget's.
    """
    epsilon: float
    """Epsilon at the claim's delta, of the whole plan or of the budget; never above the claim's epsilon."""
    epsilon_rdp: float
    """The same converted from Renyi orders: a second opinion, never the claim."""
    epsilon_zcdp: float
    """The same converted from zCDP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was checked. ``passed`` is the verdict, ``detail`` says what was found."""

    check: str
    """Name of the check, such as ``board digest``."""
    passed: bool
    """Whether it holds."""
    detail: str
    """What was found, or what does not agree with what, in a sentence. Public."""


def composition_of(events: Sequence[Event], delta: float) -> Composition:
    """Compose sound events that were fixed beforehand; what was not is promised by ``budget_filter``.

    Args:
        events: fixed before the first was made: all of a plan. Public.
        delta: in (0, 1), where epsilon is stated. Public.

    Raises:
        FedboardError: dp-accounting is needed and not installed.
        PrivacyError: the events cannot be accounted together.
    """
    point = point_of(events, delta)
    return Composition(
        mu=compose_events(events),
        rho=_rho(events),
        exact=is_exact(events),
        epsilon=point.epsilon,
        epsilon_rdp=point.epsilon_rdp,
        epsilon_zcdp=point.epsilon_zcdp,
    )


def is_exact(events: Sequence[Event]) -> bool:
    """Whether mu describes sound releases exactly: all Gaussian, with full participation or disjoint cohorts."""
    everybody = all(is_disjoint(event) or not event.get("participation") for event in events)
    return everybody and mechanisms_of(events).is_gaussian


def curve_of(events: Sequence[Event]) -> tuple[CurvePoint, ...]:
    """The point of the curve at each of ``CURVE_DELTAS``."""
    return tuple(point_of(events, delta) for delta in CURVE_DELTAS)


def point_of(events: Sequence[Event], delta: float) -> CurvePoint:
    """One point of the curve of sound events that were fixed beforehand.

    Renyi orders in closed form where all is Gaussian with full participation, else by dp-accounting. zCDP counts
    sampled rounds as full participation, since it knows no amplification.
    """
    rho = _rho(events)
    if mechanisms_of(events).is_gaussian:
        epsilon_rdp = epsilon_through_renyi(delta, rho=rho)
    else:
        epsilon_rdp = epsilon_by_library(events, delta, accountant="rdp")
    return CurvePoint(
        delta=delta,
        epsilon=epsilon_of_events(events, delta),
        epsilon_rdp=epsilon_rdp,
        epsilon_zcdp=epsilon_through_zcdp(delta, rho=rho),
    )


def composition_sentences(composition: Composition, together: str) -> tuple[str, str]:
    """What the composition of fixed releases says, in words; exact is said only of what is.

    Args:
        composition: from ``composition_of``.
        together: how the releases are called, such as "Its 3 releases together".
    """
    if composition.exact:
        cost = (
            f"{together} are exactly {composition.mu!r}-GDP, {composition.rho!r}-zCDP and, for every order "
            f"alpha > 1, (alpha, alpha * {composition.rho!r})-Renyi differentially private, which is epsilon "
            f"{composition.epsilon!r} at this delta."
        )
    else:
        cost = (
            f"{together} cost at most epsilon {composition.epsilon!r} at this delta. All were fixed before the "
            f"first. They are at most {composition.mu!r}-GDP and at most {composition.rho!r}-zCDP: upper bounds, "
            "because Laplace noise, a choice by exponential mechanism or a random choice of who takes part is "
            "among them."
        )
    return cost, (
        f"Converted from Renyi orders the same releases would be stated as epsilon "
        f"{composition.epsilon_rdp!r}, converted from zCDP as {composition.epsilon_zcdp!r}."
    )


def _rho(events: Sequence[Event]) -> float:
    return math.fsum(event_rho(event) for event in most_exposed(events))


_ROUNDING = 1e-9


def right_bets_of_mu(mu: float) -> float:
    """Share of right bets at most, where the releases are exactly mu-GDP: ``Phi(mu / 2)``."""
    return 0.5 * math.erfc(-mu / (2.0 * math.sqrt(2.0)))


def right_bets_of_epsilon(epsilon: float, delta: float) -> float:
    """The same from (epsilon, delta) alone: ``(e^epsilon + delta) / (e^epsilon + 1)``."""
    return (1.0 + delta * math.exp(-epsilon)) / (1.0 + math.exp(-epsilon))


def right_bets(claim: Guarantee, composition: Composition) -> float:
    """Share of right bets at most: by mu where that is exact, else by what is claimed.

    Args:
        claim: of a certificate that holds. Public.
        composition: of the same. Public.
    """
    return (
        right_bets_of_mu(composition.mu)
        if composition.exact
        else right_bets_of_epsilon(claim.epsilon, claim.delta)
    )


def in_hundred(share: float) -> int:
    """Right bets in a hundred, rounded up."""
    return math.ceil(100.0 * share - _ROUNDING)
