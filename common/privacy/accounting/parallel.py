"""Parallel composition: rounds about different users cost what the costliest of them costs, not the sum."""

from collections.abc import Callable, Sequence

from fedboard.common.privacy.events import Event, event_mu, is_disjoint


def squared_mu(event: Event) -> float:
    """What a release costs a user who is part of it: mu^2, which adds up."""
    return event_mu(event) ** 2


def most_exposed(events: Sequence[Event], cost: Callable[[Event], float] = squared_mu) -> list[Event]:
    """The releases that the most exposed user is part of: of each pass those of the cohort that costs most.

    Releases of rounds that ask everybody are all among them.

    Args:
        events: sound; passes of different runs named apart. Public.
        cost: of one release; adds up.
    """
    passes: dict[str, dict[int, float]] = {}
    for event in filter(is_disjoint, events):
        cohorts = passes.setdefault(event["participation"]["round"], {})
        cohort = event["participation"]["cohort"]
        cohorts[cohort] = cohorts.get(cohort, 0.0) + cost(event)
    costliest = {name: max(cohorts, key=lambda cohort: cohorts[cohort]) for name, cohorts in passes.items()}
    return [
        event
        for event in events
        if not is_disjoint(event)
        or event["participation"]["cohort"] == costliest[event["participation"]["round"]]
    ]
