"""A private choice that takes a fraction of a second, for tests."""

from pathlib import Path
from typing import Any

from fedboard.simulations.config import SimulationConfig, overlay, parse_config
from fedboard.simulations.sweeps.cells import shared_problem
from fedboard.simulations.tuning.private_plan import PrivateTuneRecord, plan_private_tuning
from fedboard.simulations.tuning.private_run import PrivateTuneResult, start_tuning, tune_privately
from fedboard.simulations.tuning.trials import for_trials

EPSILON, DELTA = 5.0, 1e-5
TINY: dict[str, Any] = {
    "algorithm": "adadpals",
    "data": {"synthetic": {"n_users": 200, "n_items": 40, "mean_ratings_per_user": 15.0}},
    "settings": {"rank": 2, "rounds": 1},
    "privacy": {"epsilon": EPSILON, "delta": DELTA},
    "run": {"kernels": "numpy", "baselines": False, "evaluate_rounds": False},
}
CANDIDATES = ({"settings.item_ridge": 9.0}, {"settings.clip_norm": 0.3, "privacy.shares.counts": 0.2})
PARTS = ("trial-0", "trial-1", "trial-2", "choice", "final")


def tiny(**changes: Any) -> SimulationConfig:
    return parse_config(overlay(TINY, changes))


def planned(config: SimulationConfig, **arguments: Any) -> PrivateTuneRecord:
    given = {"candidates": CANDIDATES} | arguments
    return plan_private_tuning(config, shared_problem(for_trials(config)), **given)


def tuned(config: SimulationConfig, out: Path, **arguments: Any) -> PrivateTuneResult:
    record = planned(config, **arguments)
    start_tuning(record, out)
    return tune_privately(record, out, report=False)
