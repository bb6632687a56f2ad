"""What a guarantee for users implies for one rating and for several users together.

A user's ratings pass through her own model and her own weights, so one rating can move everything she sends. Her
epsilon divided by the number of her ratings is therefore promised by nothing here; what is promised:

* A rating of a user who takes part, changed, added or removed, changes her row. Under ``replace`` that is one step
  between neighbours. Under ``add-remove`` it is a removal and an addition; a sum then moves by at most
  ``norm(x - x')``, which is twice the bound, or sqrt 2 times where inner products are non-negative.
* k users together are k steps: k mu where all is mu-GDP.

Reference: Dong, Roth and Su (2022), arXiv:1905.02383, theorem 2.14 (groups); Vadhan (2017), doi:10.1007/978-3-319-
57048-8_7, lemma 2.2 (groups in terms of epsilon and delta).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.accounting.exact import compose_events, compose_mu, epsilon_of, epsilon_of_events
from fedboard.common.privacy.accounting.grouping import mechanisms_of, most_exposed
from fedboard.common.privacy.adjacency import Adjacency, sensitivity_factor
from fedboard.common.privacy.events import Event, event_mu

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
        events: all of one adjacency, fixed before the first (others: ``budget_filter``). Public.
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
