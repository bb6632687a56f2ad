"""The numbers that ``fedboard account`` prints."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fedboard.client.guarantee.account_sources import Account
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.budget import Budget, PlannedRelease, budget_epsilon
from fedboard.common.privacy.accounting.calibration import (
    ParticipationOf,
    mu_left,
    noise_multipliers,
    releases_left,
    round_of_release,
    sampled_plan,
)
from fedboard.common.privacy.accounting.exact import (
    epsilon_by_library,
    epsilon_of,
    epsilon_of_events,
    epsilon_through_renyi,
    epsilon_through_zcdp,
    mu_for,
    rho_through,
)
from fedboard.common.privacy.accounting.grouping import is_installed
from fedboard.common.privacy.accounting.rating_level import group_epsilon, rating_mu, trimmed_share
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
    numbers = account.numbers(delta)
    composed, implied = numbers.composition, numbers.implied
    answer: dict[str, Any] = {
        "what": account.label,
        "releases": len(account.fixed if account.planned else account.events),
        "adjacency": str(account.adjacency),
        "delta": delta,
        "planned": account.planned,
        "exact": composed.exact,
        "mu": composed.mu,
        "rho": composed.rho,
        "epsilon": composed.epsilon,
        "epsilon_pld": library_epsilon(account.fixed, delta) if account.planned else None,
        "epsilon_rdp": composed.epsilon_rdp,
        "epsilon_zcdp": composed.epsilon_zcdp,
        "rating_epsilon": implied.rating_epsilon,
        "pair_epsilon": implied.pair_epsilon,
    }
    if account.commitment is not None:
        answer["made"] = len(account.events)
        answer["claimed"] = "plan" if account.planned else "budget"
    if group is not None:
        answer["group"] = {"users": group, "epsilon": _of_group(account, delta, group)}
    if trimmed is not None:
        answer["trimmed"] = _of_term(account, delta, trimmed)
    return answer


def _of_group(account: Account, delta: float, n_users: int) -> float:
    if account.planned or account.commitment is None:
        return group_epsilon(account.fixed, delta, n_users=n_users)
    return budget_epsilon(account.commitment.budget, delta, n_users=n_users)


def _of_term(account: Account, delta: float, ratings_per_user: int) -> dict[str, Any]:
    if not account.planned:
        raise InputError("--trimmed is about releases that a plan fixed, and these had none; leave it out")
    share = trimmed_share(ratings_per_user)
    mu = rating_mu(account.numbers(delta).composition.mu, largest_share=share)
    return {"ratings_per_user": ratings_per_user, "share": share, "epsilon": epsilon_of(delta, mu=mu)}


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
        "claimed": epsilon if account.commitment is None else account.commitment.epsilon_at(delta),
        "claimed_by": "plan" if account.planned else "budget",
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
