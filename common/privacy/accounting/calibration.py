"""Calibration: how a budget and its division into shares become noise multipliers."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from fedboard.common.errors import OutOfRangeError, PrivacyError
from fedboard.common.privacy.accounting.budget import PlannedRelease, planned_events
from fedboard.common.privacy.accounting.exact import (
    compose_events,
    compose_mu,
    epsilon_of,
    epsilon_of_events,
    mu_for,
    require_epsilon,
)
from fedboard.common.privacy.accounting.grouping import epsilon_by_loss_distributions, mechanisms_of
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.events import LIBRARY_TOLERANCE, RELATIVE_TOLERANCE, Event, is_amplified

Shares: TypeAlias = Mapping[str, float]
"""Release name -> share of mu^2; each > 0, together at most 1. Public."""
ParticipationOf: TypeAlias = Callable[[str], Mapping[str, Any] | None]
"""Release name -> the ``participation`` its event will state; None where everybody takes part. Public."""

PREPARATION = "preparation"
_SLACK = 1e-9
_ROUND_OF = {
    **dict.fromkeys(("mean", "moments", "counts", "users"), PREPARATION),
    **dict.fromkeys(("weighted-counts", "bias"), "biases"),
}
"""By what stands before the slash in a release's name: which round of a run asks for it."""
_COARSENING = 16.0
_LEAST_SPENT, _MOST_SPENT = 1 - 1e-5, 1 - 2 * LIBRARY_TOLERANCE
"""Part of the budget that a search may stop at; below all of it, so that it holds on other machines too."""
_SAFE_STEP = 1e-6
_MOST_STEPS = 40


def noise_multipliers(
    epsilon: float, delta: float, shares: Shares, *, participation: ParticipationOf | None = None
) -> dict[str, float]:
    """Noise multiplier of each release, so that all together stay within (epsilon, delta).

    ``z_k = c / sqrt(share_k)``. With full participation ``c = 1 / mu`` with mu the largest that the budget
    allows; ``sum 1 / z_k^2 <= mu^2``. With Poisson participation c is searched for on the accountant's curve: the
    shares then divide mu^2 as if everybody took part.

    Guarantee: ``epsilon_of_events`` of the planned releases is at most epsilon; with all shares together 1 it
    is within 1e-5 of it, relatively, for Poisson participation and closer for full.

    Args:
        epsilon: > 0. Public.
        delta: in (0, 1). Public.
        shares: of mu^2. A sum above 1 by rounding (1e-9) is scaled back to 1; what is missing to 1 is left
            unspent.
        participation: what each release's event will state; None: everybody takes part in everything.

    Returns:
        Release name -> z, relative to the sensitivity of that release under its own adjacency.

    Raises:
        FedboardError: Poisson participation needs dp-accounting, which is not installed.
        PrivacyError: a share is not a number > 0, they add to more than 1, or a participation is not sound.
    """
    require_epsilon(epsilon)
    for name, share in shares.items():
        if not 0 < share < math.inf:
            raise OutOfRangeError(f"the share of release {name!r} must be > 0, got {share}")
    total = math.fsum(shares.values())
    if total > 1 + _SLACK:
        raise OutOfRangeError(f"the shares must add to at most 1, got {total}")
    # Calibrated as if all were spent, so that one rule holds for every accountant: less is spent, never more.
    of_whole = {name: share / total for name, share in shares.items()}
    full = 1.0 / mu_for(epsilon, delta)
    if participation is None or not _amplified(of_whole, participation):
        return {name: full * math.sqrt(max(total, 1.0) / share) for name, share in shares.items()}
    scale = _smallest_scale(epsilon, delta, of_whole, participation, full=full)
    return {name: scale * math.sqrt(max(total, 1.0) / share) for name, share in shares.items()}


def mu_left(events: Sequence[Event], epsilon: float, delta: float) -> float:
    """Largest mu of further Gaussian releases, all together, that still fit a budget beside what is booked.

    ``sqrt(mu_budget^2 - mu_spent^2)``, with sampled rounds in full: what comes next may be chosen by what was
    seen (``epsilon_when_adaptive``). n releases of noise multiplier z fit if ``n <= (z mu)^2``.

    Args:
        events: what is booked; sound. Public.
        epsilon: of the budget, > 0. Public.
        delta: of the budget. Public.

    Returns:
        0 where nothing fits.

    Raises:
        PrivacyError: an event is not sound.
    """
    allowed, spent = mu_for(epsilon, delta), compose_events(events)
    return math.sqrt((allowed - spent) * (allowed + spent)) if spent < allowed else 0.0


def releases_left(events: Sequence[Event], epsilon: float, delta: float, *, noise_multiplier: float) -> int:
    """How many further Gaussian releases of one noise multiplier a ledger with this budget would still book.

    Args:
        events: as for ``mu_left``.
        epsilon: as for ``mu_left``.
        delta: as for ``mu_left``.
        noise_multiplier: z > 0 of each. Public.

    Raises:
        PrivacyError: as for ``mu_left``, or z is not a finite number > 0.
    """
    mu = mu_left(events, epsilon, delta)
    if not 0 < noise_multiplier < math.inf:
        raise OutOfRangeError(f"noise multiplier must be a finite number > 0, got {noise_multiplier}")
    count = math.floor((noise_multiplier * mu) ** 2)
    # One more may fit by rounding: a ledger allows for that much.
    together = compose_mu([compose_events(events), math.sqrt(count + 1) / noise_multiplier])
    more = epsilon_of(delta, mu=together) <= epsilon * (1 + RELATIVE_TOLERANCE)
    return count + 1 if more else count


def round_of_release(name: str) -> str:
    """Name of the round that makes a release: "round-3" for "round-3/linear", "preparation" for counts and mean.

    Another name is a round of its own, by what stands before its slash.
    """
    head = name.partition("/")[0]
    return _ROUND_OF.get(head, head)


def sampled_plan(
    multipliers: Mapping[str, float], participation: ParticipationOf
) -> dict[str, PlannedRelease]:
    """The plan for a ledger: what each release's event will state about noise and participation."""
    stated = {name: participation(name) for name in multipliers}
    return {
        name: z
        if stated[name] is None
        else {"noise_multiplier": z, "participation": dict(stated[name] or {})}
        for name, z in multipliers.items()
    }


def _amplified(shares: Shares, participation: ParticipationOf) -> bool:
    return any(is_amplified({"participation": participation(name)}) for name in shares)


def _smallest_scale(
    epsilon: float, delta: float, shares: Shares, participation: ParticipationOf, *, full: float
) -> float:
    """Smallest c, from the safe side, for which the planned releases cost at most epsilon.

    Found on coarse loss distributions, then corrected on the usual ones, which a ledger will ask.
    """

    def cost(scale: float, *, coarse: bool) -> float:
        multipliers = {name: scale / math.sqrt(share) for name, share in shares.items()}
        events = planned_events(sampled_plan(multipliers, participation), Adjacency.ADD_REMOVE)
        if coarse:
            return epsilon_by_loss_distributions(mechanisms_of(events), delta, coarsening=_COARSENING)
        return epsilon_of_events(events, delta)

    scale, slope = _coarse_scale(lambda scale: cost(scale, coarse=True) / epsilon, full=full)
    for _ in range(_MOST_STEPS):
        spent = cost(scale, coarse=False) / epsilon
        if _LEAST_SPENT <= spent <= _MOST_SPENT:
            return scale
        scale = min(scale * spent**slope * (1 + _SAFE_STEP), full)
        if scale == full:  # sampling gains nothing: full participation is exact and safe
            return full
    raise PrivacyError(f"no noise was found for epsilon {epsilon:g}, delta {delta:g} and this participation")


def _coarse_scale(excess: Callable[[float], float], *, full: float) -> tuple[float, float]:
    """Where the coarse cost is 1, and by which power of the cost the scale has to be corrected near it."""
    low = high = full
    while excess(low) <= 1:
        low, high = low / 2, low
    if low == high:
        return full, 1.0
    from scipy.optimize import brentq  # whoever has dp-accounting, which was just asked, has it

    scale = float(brentq(lambda scale: math.log(excess(scale)), low, high, rtol=1e-6))
    nearby = 1.02
    slope = math.log(nearby) / math.log(excess(scale) / excess(scale * nearby))
    return scale, slope
