"""Who is in the fleet of a soak, and at which pace they train."""

from collections.abc import Sequence

from fedboard.common.board import Catalogue
from fedboard.common.cohort import Cohort
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import Problem, load_problem
from fleets.deployment import FleetPlan

GATEWAYS = ("a", "b")
USERS, MOST_JOINED, MOST_EVER = 30, 3, 12
POLICY = "witnesses.policy"
KEPT_HOURS = 72.0
"""A night passes in a moment here, and a round that was under way is asked again after it."""


def people() -> Problem:
    """Made-up users for everybody who will ever be there."""
    users = {"n_users": USERS * (len(GATEWAYS) + MOST_EVER), "n_items": 60, "mean_ratings_per_user": 12.0}
    return load_problem(parse_config({"data": {"synthetic": users}}))


def fleet_plan(rounds: int, ratings: Sequence[Cohort], catalogue: Catalogue) -> FleetPlan:
    """A fleet of the gateways whose rounds take seconds."""
    return FleetPlan(
        nodes=dict(zip(GATEWAYS, ratings, strict=True)),
        catalogue=catalogue,
        task={"algorithm": "adadpals", "settings": {"rank": 2, "rounds": rounds}},
        privacy={"epsilon": 5.0, "delta": 1e-5, "noise": "secure"},
        rounds={
            "quorum": 2,
            "deadline_seconds": 20.0,
            "longest_deadline_seconds": 40.0,
            "grace_seconds": 2.0,
            "resend_seconds": 4.0,
            "poll_seconds": 0.2,
            "most_lost": 1.0,
        },
        policy={"witnesses": f"../{POLICY}", "answers_kept_hours": KEPT_HOURS},
        device_poll_seconds=1.0,
    )
