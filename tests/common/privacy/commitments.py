"""Terms for certificates that tests make: a plan of just the releases at hand, or a budget without a plan."""

from collections.abc import Iterable
from typing import Any

from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.adjacency import Adjacency
from fedboard.common.privacy.commitment import Commitment
from fedboard.common.privacy.events import Event


def plan_of(events: Iterable[Event]) -> dict[str, Any]:
    """The plan that these Gaussian releases carry out to the letter."""
    return {str(event["name"]): _entry(event) for event in events}


def planned(
    events: Iterable[Event], *, epsilon: float = 1e6, delta: float = 1e-5, adjacency: str = "add-remove"
) -> Commitment:
    """A ledger's terms whose plan is just these releases."""
    return Commitment.of(_budget(epsilon, delta, adjacency), plan_of(events))


def unplanned(*, epsilon: float, delta: float = 1e-5, adjacency: str = "add-remove") -> Commitment:
    """A ledger's terms without a plan."""
    return Commitment.of(_budget(epsilon, delta, adjacency))


def _budget(epsilon: float, delta: float, adjacency: str) -> Budget:
    return Budget(epsilon=epsilon, delta=delta, adjacency=Adjacency(adjacency))


def _entry(event: Event) -> Any:
    if "participation" not in event:
        return event["noise_multiplier"]
    return {"noise_multiplier": event["noise_multiplier"], "participation": dict(event["participation"])}
