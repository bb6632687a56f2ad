"""The numbers that ``fedboard account`` prints."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedboard.cli.guarantee.account_sources import Account
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.accounting.calibration import (
    ParticipationOf,
    mu_left,
    noise_multipliers,
    releases_left,
    round_of_release,
    sampled_plan,
)
from fedboard.common.privacy.accounting.conversions import (
    epsilon_through_renyi,
    epsilon_through_zcdp,
    rho_through,
)
from fedboard.common.privacy.accounting.exact import epsilon_by_library, epsilon_of, epsilon_of_events, mu_for
from fedboard.common.privacy.accounting.guarantee import composition_of
from fedboard.common.privacy.accounting.library import is_installed
from fedboard.common.privacy.accounting.plan import PlannedRelease
from fedboard.common.privacy.accounting.rating_level import (
    group_epsilon,
    implied_by,
    rating_mu,
    trimmed_share,
)
from fedboard.common.privacy.events import Event, is_pure, pure_epsilon


def epsilon_answer(
    account: Account, delta: float, *, group: int | None = None, trimmed: int | None = None
) -> dict[str, Any]:
    """What the releases cost together, by each way of accounting, and what follows from it.

    Args:
        account: whose booked or planned releases count.
        delta: where epsilon is stated.
        group: number of users who belong together.
        trimmed: largest number of ratings of a user, where each is a term of its own with constant weight.
    """
    composed = composition_of(account.events, delta, planned=account.planned)
    implied = implied_by(account.events, delta, planned=account.planned)
    answer: dict[str, Any] = {
        "what": account.label,
        "releases": len(account.events),
        "adjacency": str(account.adjacency),
        "delta": delta,
        "planned": account.planned,
        "exact": composed.exact,
        "mu": composed.mu,
        "rho": composed.rho,
        "epsilon": composed.epsilon,
        "epsilon_pld": library_epsilon(account.events, delta) if composed.exact or account.planned else None,
        "epsilon_rdp": composed.epsilon_rdp,
        "epsilon_zcdp": composed.epsilon_zcdp,
        "rating_epsilon": implied.rating_epsilon,
        "pair_epsilon": implied.pair_epsilon,
    }
    if group is not None:
        grouped = group_epsilon(account.events, delta, n_users=group, planned=account.planned)
        answer["group"] = {"users": group, "epsilon": grouped}
    if trimmed is not None:
        share = trimmed_share(trimmed)
        of_term = epsilon_of(delta, mu=rating_mu(composed.mu, largest_share=share))
        answer["trimmed"] = {"ratings_per_user": trimmed, "share": share, "epsilon": of_term}
    return answer


def library_epsilon(events: Sequence[Event], delta: float) -> float | None:
    """Epsilon by dp-accounting's loss distributions; None where it is not installed."""
    return epsilon_by_library(events, delta) if is_installed() else None


def noise_answer(
    epsilon: float, delta: float, shares: Mapping[str, float], *, poisson: float | None
) -> dict[str, Any]:
    """How much noise each release needs, and how much more looser accounting would demand."""
    stated = poisson_rounds(shares, poisson)
    multipliers = noise_multipliers(epsilon, delta, shares, participation=stated)
    mu = mu_for(epsilon, delta)
    return {
        "epsilon": epsilon,
        "delta": delta,
        "poisson": poisson,
        "noise_multipliers": multipliers,
        "full_participation": {
            "mu": mu,
            "noise_multiplier_of_all": 1.0 / mu,
            "more_noise_through_rdp": _more_noise(mu, rho_through(epsilon_through_renyi, epsilon, delta)),
            "more_noise_through_zcdp": _more_noise(mu, rho_through(epsilon_through_zcdp, epsilon, delta)),
        },
    }


def planned(multipliers: Mapping[str, float], poisson: float | None) -> dict[str, PlannedRelease]:
    """The plan that states these multipliers and that participation."""
    return sampled_plan(multipliers, poisson_rounds(multipliers, poisson))


def poisson_rounds(names: Mapping[str, float], poisson: float | None) -> ParticipationOf:
    """Which releases share a coin: those of one round of a run, by their names; another name has its own."""
    if poisson is None:
        return lambda name: None

    def stated(name: str) -> dict[str, Any]:
        return {"kind": "poisson", "probability": poisson, "round": round_of_release(name)}

    return stated


def left_answer(account: Account, budget: Budget, *, noise_multiplier: float | None) -> dict[str, Any]:
    """What a ledger has spent, what is reserved in it, and what further Gaussian releases it has room for."""
    committed = [*account.events, *account.reserved]
    epsilon, delta = budget.epsilon, budget.delta
    mu = mu_left(committed, epsilon, delta)
    answer: dict[str, Any] = {
        "what": account.label,
        "adjacency": str(budget.adjacency),
        "delta": delta,
        "budget": epsilon,
        "releases": len(account.events),
        "spent": epsilon_of_events(account.events, delta, planned=account.planned),
        "reserved_releases": len(account.reserved),
        "committed": epsilon_of_events(committed, delta, planned=account.planned),
        "left": {
            "mu": mu,
            "smallest_noise_multiplier": 1.0 / mu if mu > 0 else None,
            "epsilon_alone": epsilon_of(delta, mu=mu),
            "pure_epsilon": _pure_epsilon_left(committed, epsilon),
        },
    }
    if noise_multiplier is not None:
        answer["left"]["noise_multiplier"] = noise_multiplier
        answer["left"]["releases"] = releases_left(
            committed, epsilon, delta, noise_multiplier=noise_multiplier
        )
    return answer


def _pure_epsilon_left(events: Sequence[Event], epsilon: float) -> float | None:
    """What further releases of delta 0 may cost together; None beside others, where epsilons do not just add up."""
    if not all(is_pure(event) for event in events):
        return None
    return max(epsilon - math.fsum(pure_epsilon(event) for event in events), 0.0)


def _more_noise(mu: float, rho: float) -> float:
    """By which part of itself the noise would have to be larger."""
    return mu / math.sqrt(2.0 * rho) - 1.0


__all__ = [
    "epsilon_answer",
    "left_answer",
    "library_epsilon",
    "noise_answer",
    "planned",
    "poisson_rounds",
]
