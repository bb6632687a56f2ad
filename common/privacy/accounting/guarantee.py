"""Guarantees: what releases cost together, in the terms in which it is promised.

What a guarantee for users implies for one rating and for several users together. A user's ratings pass through
their own model and weights, so one rating can move everything they send. Their epsilon divided by the number of
their ratings is therefore promised by nothing here; what is promised:

* A rating of a user who takes part, changed, added or removed, changes her row. Under ``replace`` that is one step
  between neighbours. Under ``add-remove`` it is a removal and an addition; a sum then moves by at most
  ``norm(x - x')``, which is twice the bound, or sqrt 2 times where inner products are non-negative.
* k users together are k steps: k mu where all is mu-GDP.

Reference: Dong, Roth and Su (2022), arXiv:1905.02383, theorem 2.14 (groups); Vadhan (2017), doi:10.1007/978-3-319-
57048-8_7, lemma 2.2 (groups in terms of epsilon and delta).

The promise as odds: how often somebody is right at most who bets on one person, when a coin decided it.

The board page says the same by its own few lines (``client/page/script/seal/gaussian.js``, ``view/odds_view.js``);
a test holds one against the other.

Reference: Dong, Roth and Su (2022), arXiv:1905.02383, sec. 2 (mu); Kairouz, Oh and Viswanath (2015),
arXiv:1311.0776 (epsilon and delta alone); Nanayakkara et al. (2023), arXiv:2303.00738 (odds, not formulas).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.exact import (
    compose_events,
    compose_mu,
    epsilon_by_library,
    epsilon_of,
    epsilon_of_events,
    epsilon_through_renyi,
    epsilon_through_zcdp,
)
from fedboard.common.privacy.accounting.grouping import mechanisms_of, most_exposed
from fedboard.common.privacy.adjacency import Adjacency, sensitivity_factor
from fedboard.common.privacy.events import Event, event_mu, event_rho, is_disjoint

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
    """Compose sound events that were fixed beforehand; what was not is promised by ``budget``.

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


PAIR = 2
"""Users of the smallest household of more than one."""
_SMALLER_DELTAS = tuple(4.0**-step for step in range(1, 13))
"""Where a group's guarantee is looked for if no closed form is known; each gives a valid one, the best is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Implied:
    """What the releases guarantee beside the claim, at the claim's delta. Every field is public."""

    rating_epsilon: float
    """For one rating of a user who takes part: changed, added or removed."""
    pair_epsilon: float
    """For two users together: a household, say."""


def implied_by(events: Sequence[Event], delta: float) -> Implied:
    """Guarantees that follow from sound releases without another assumption.

    Args:
        events: all of one adjacency, fixed before the first (others: ``budget``). Public.
        delta: in (0, 1). Public.
    """
    return Implied(
        rating_epsilon=rating_epsilon(events, delta),
        pair_epsilon=group_epsilon(events, delta, n_users=PAIR),
    )


def rating_epsilon(events: Sequence[Event], delta: float) -> float:
    """Epsilon for one rating of a user who takes part, changed, added or removed.

    Under ``replace-values`` and ``replace-labels`` for one value or label, changed; that it is there is public.

    Args:
        events: sound; all of one adjacency; fixed before the first. Public.
        delta: in (0, 1). Public.

    Raises:
        PrivacyError: the adjacencies differ, or an event is not sound.
    """
    if _adjacency(events) is not Adjacency.ADD_REMOVE:
        return epsilon_of_events(events, delta)
    mechanisms = mechanisms_of(events)
    exposed = most_exposed(events, lambda event: _exchanged_mu(event) ** 2)
    bound = epsilon_of(delta, mu=compose_mu(map(_exchanged_mu, exposed)))
    if mechanisms.is_gaussian:
        return bound
    return min(bound, group_epsilon(events, delta, n_users=PAIR))


def group_epsilon(events: Sequence[Event], delta: float, *, n_users: int) -> float:
    """Epsilon for several users together: all of them present or absent, or all exchanged.

    ``k mu`` where the releases are mu-GDP, exactly for Gaussian ones. Otherwise the smaller of that and of
    (epsilon', delta')-DP in k steps: ``k epsilon'`` at ``delta' sum over i < k of e^(i epsilon')``.

    Args:
        events: sound; fixed before the first. Public.
        delta: in (0, 1). Public.
        n_users: k >= 1. Public.

    Raises:
        PrivacyError: n_users is not a whole number >= 1, or an event is not sound.
    """
    if isinstance(n_users, bool) or not isinstance(n_users, int) or n_users < 1:
        raise PrivacyError(f"a group must be a whole number >= 1 of users, got {n_users}")
    if n_users == 1:
        return epsilon_of_events(events, delta)
    bound = epsilon_of(delta, mu=n_users * compose_events(events))
    if mechanisms_of(events).is_gaussian:
        return bound
    steps = [(epsilon_of_events(events, delta * part), delta * part) for part in _SMALLER_DELTAS]
    return min([bound] + [n_users * e for e, small in steps if _group_delta(e, small, n_users) <= delta])


def implied_sentences(implied: Implied, adjacency: str) -> tuple[str, ...]:
    """What ``Implied`` says, in words, for certificate and terminal."""
    if adjacency in (Adjacency.REPLACE_VALUES, Adjacency.REPLACE_LABELS):
        what = "value" if adjacency == Adjacency.REPLACE_VALUES else "label"
        return (
            f"One {what} of a user, changed: epsilon {implied.rating_epsilon!r} at this delta. That it is there is "
            "public.",
            f"Two users together (a household, say): epsilon {implied.pair_epsilon!r} at this delta.",
        )
    step = (
        "her whole row" if adjacency == Adjacency.REPLACE else "her row, which is a removal and an addition"
    )
    return (
        f"One rating of a user who takes part, changed, added or removed, is a change of {step}: epsilon "
        f"{implied.rating_epsilon!r} at this delta. Epsilon divided by the number of her ratings is not "
        "promised, because her weights and her model depend on all of them.",
        f"Two users together (a household, say): epsilon {implied.pair_epsilon!r} at this delta.",
    )


def _adjacency(events: Sequence[Event]) -> Adjacency:
    found = {str(event.get("adjacency")) for event in events} or {str(Adjacency.ADD_REMOVE)}
    if len(found) > 1:
        raise PrivacyError(f"releases of different adjacencies have no common guarantee: {sorted(found)}")
    return Adjacency(found.pop())


def _exchanged_mu(event: Event) -> float:
    """Bound on mu of an add-remove release when one user's contribution is exchanged for another."""
    same_sign = event.get("same_sign") is True
    factor = sensitivity_factor(Adjacency.REPLACE, same_sign=same_sign)
    return event_mu({**event, "noise_multiplier": event["noise_multiplier"] / factor})


def _group_delta(epsilon: float, delta: float, n_users: int) -> float:
    try:
        return delta * math.fsum(math.exp(step * epsilon) for step in range(n_users))
    except OverflowError:
        return math.inf
