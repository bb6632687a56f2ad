"""The plan of a run: which releases it will make and with how much noise, fixed before it starts."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from fedboard.common.errors import PrivacyError
from fedboard.common.privacy.adjacency import Adjacency, sensitivity_factor
from fedboard.common.privacy.events import RELATIVE_TOLERANCE, Event, is_amplified, release_shift

PlannedRelease: TypeAlias = float | Mapping[str, Any]
"""A noise multiplier, or ``{"noise_multiplier": z, "participation": ...}`` where not everybody takes part."""
Plan: TypeAlias = Mapping[str, PlannedRelease]
"""Release name -> what is planned. Public, JSON-able."""


def planned_event(name: str, planned: PlannedRelease, adjacency: Adjacency) -> dict[str, Any]:
    """A sound event that costs what the planned release will cost at most."""
    multiplier, participation = _terms(planned)
    sensitivity = sensitivity_factor(adjacency, same_sign=False)
    deviation = multiplier * sensitivity
    event = {
        "mechanism": "gaussian",
        "name": name,
        "rows": 1,
        "width": 1,
        "layout": "vector",
        "grid_step": 1.0,
        "l2_bound": 1,
        "same_sign": False,
        "adjacency": str(adjacency),
        "noise_multiplier": multiplier,
        "covers": "planned",
        "l2_sensitivity": sensitivity,
        "noise_stddev": deviation,
        "release_shift": release_shift(deviation) if deviation > 0 else 0,
    }
    return event if participation is None else {**event, "participation": dict(participation)}


def planned_events(plan: Plan, adjacency: Adjacency) -> list[dict[str, Any]]:
    """``planned_event`` for a whole plan."""
    return [planned_event(name, planned, adjacency) for name, planned in plan.items()]


def require_planned(event: Event, plan: Plan | None) -> None:
    """Refuse an event that costs more than what is planned under its name.

    Sampling who takes part never costs more than asking everybody, so a plan for everybody covers it; a plan
    that counts on sampling covers that very sampling only.

    Raises:
        PrivacyError: the name is not planned, the noise is less than planned, the mechanism is not Gaussian,
            or the plan counts on another sampling.
    """
    if plan is None:
        return
    planned = plan.get(event["name"])
    if planned is not None:
        multiplier, participation = _terms(planned)
        enough = event["noise_multiplier"] >= multiplier * (1 - RELATIVE_TOLERANCE)
        covered = participation is None or event.get("participation") == dict(participation)
        if event["mechanism"] == "gaussian" and enough and covered:
            return
    raise PrivacyError(
        f"release {event['name']!r} with noise multiplier {event['noise_multiplier']} is not in "
        f"the run plan of this ledger (planned: {planned})"
    )


def counts_alike(event: Event, plan: Plan | None) -> bool:
    """Whether an event that ``require_planned`` accepts is accounted just as its plan is, or with more noise."""
    if plan is None:
        return False
    return is_amplified(event) == is_amplified(
        planned_event(event["name"], plan[event["name"]], event["adjacency"])
    )


def apart(events: Iterable[Event], run: str) -> list[Event]:
    """The events of one run, told apart from those of others for accounting.

    Releases of one round share their coins where participation is sampled; rounds of different runs that
    happen to have one name do not.
    """
    return [_apart(event, run) for event in events]


def _apart(event: Event, run: str) -> Event:
    participation = event.get("participation")
    if not isinstance(participation, Mapping):
        return event
    return {**event, "participation": {**participation, "round": f"{run}/{participation.get('round')}"}}


def _terms(planned: PlannedRelease) -> tuple[float, Mapping[str, Any] | None]:
    if isinstance(planned, Mapping):
        return planned["noise_multiplier"], planned.get("participation")
    return planned, None
