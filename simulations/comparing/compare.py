"""One table of all protocols: what each costs a fleet, what it leaves of the accuracy, and whom it trusts."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.errors import FedboardError, InputError
from fedboard.common.files import write_atomically
from fedboard.common.protocols.registry import PROTOCOL_NAMES, says
from fedboard.common.protocols.shared.properties import shows_rows
from fedboard.common.tasks.registry import named
from fedboard.simulations.comparing.measuring import FleetSize, fleet_settings, measure_costs
from fedboard.simulations.comparing.record import Found, record_of
from fedboard.simulations.comparing.workload import workload_of
from fedboard.simulations.config import SimulationConfig, overlay, parse_config
from fedboard.simulations.runs.algorithm_choice import chosen_algorithm, label_of
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.sessions.choice import chosen_card
from fedboard.simulations.sweeps.cells import Cell, CellOutcome, run_cell, shared_problem

RECORD = "comparison.json"
_PLAN = "plan.json"
_MANY = 1000
"""Users of a fleet whose size the data will tell, to try settings on."""
_TYPICAL = 7
"""Typical clients whose parts are carried."""

Progress = Callable[[str, int, int], None]
"""(phase, steps done, steps in all)"""


class Comparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is compared, for whom. Public."""

    config: SimulationConfig
    """Data, rank, seed: what all runs share."""
    algorithms: tuple[str, ...] = ("",)
    """Empty for the usual one of the feedback. The first is the one at the top level of the record."""
    protocols: tuple[str, ...] = PROTOCOL_NAMES
    epsilons: tuple[float, ...] = (1.0, 5.0)
    """Empty: costs alone."""
    users: int | None = None
    """Of the fleet; None: those of the data."""
    clients: int | None = None
    """Of the fleet; None: one for each user."""
    ratings: float | None = None
    """Of the users whose sessions are run; None: those of the median user."""
    dropout: float = 0.2
    """Share of the clients that vanish in a round."""
    settings: dict[str, dict[str, Any]] = {}
    """Of each protocol, by its name."""

    def __post_init__(self) -> None:
        """Name the algorithm where nobody did, and check ranges.

        Raises:
            InputError: names the number.
        """
        msgspec.structs.force_setattr(self, "algorithms", named(self.algorithms, self.config.feedback))
        for name in {*self.protocols, *self.settings}:
            chosen_card(name)
        if not self.protocols or not self.algorithms:
            raise InputError("a comparison needs at least one protocol and one algorithm")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout must be in [0, 1), got {self.dropout:g}")
        for epsilon in self.epsilons:
            if not 0 < epsilon < math.inf:
                raise InputError(f"epsilons must be finite numbers > 0, got {epsilon:g}")
        unused = sorted(set(self.settings) - set(self.protocols))
        if unused:
            raise InputError(f"settings of {', '.join(unused)} are given, which is not compared")
        if self.clients is not None and self.users is not None and self.clients > self.users:
            raise InputError(f"{self.clients} clients cannot host {self.users} users; at least one each")


def compare(comparison: Comparison, out: Path, on_progress: Progress) -> dict[str, Any]:
    """Measure and simulate; runs that an earlier, interrupted comparison finished in ``out`` are kept.

    Args:
        comparison: what to compare.
        out: folder; runs go to ``out/cells``, the record to ``out/comparison.json``.
        on_progress: is told about every step.

    Returns:
        The record, JSON-able: ``protocols`` of the first algorithm, ``algorithms`` of all.

    Raises:
        InputError: the folder holds something else, or the data cannot be used.
    """
    _prepare(comparison, out)
    found = {name: _of_algorithm(comparison, name, out, on_progress) for name in comparison.algorithms}
    settings = msgspec.to_builtins(comparison)
    record = record_of(found, settings=settings)
    write_atomically(out / RECORD, msgspec.json.format(msgspec.json.encode(record), indent=1))
    return record


def _prepare(comparison: Comparison, out: Path) -> None:
    plan, wanted = out / _PLAN, msgspec.json.encode(comparison)
    if plan.exists() and plan.read_bytes() == wanted:
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} is in use by another comparison or something else; give another --out")
    (out / "cells").mkdir(parents=True, exist_ok=True)
    write_atomically(plan, wanted)


def _of_algorithm(comparison: Comparison, algorithm: str, out: Path, on_progress: Progress) -> Found:
    names = comparison.protocols
    _require_sound(comparison, algorithm)
    on_progress(f"{algorithm}: a typical round", 0, 1)
    found = _start(comparison, algorithm, out)
    for place, name in enumerate(names):
        on_progress(f"{algorithm}: sessions", place, len(names))
        try:
            settings = comparison.settings.get(name, {})
            found.costs[name] = measure_costs(name, found.workload, found.fleet, settings)
        except FedboardError as error:
            found.errors[name] = str(error)
    if len(found.errors) == len(names):
        raise InputError(f"no protocol can serve this fleet: {found.errors[names[0]]}")
    cells = [(name, epsilon) for name in names for epsilon in comparison.epsilons]
    for place, (name, epsilon) in enumerate(cells):
        on_progress(f"{algorithm}: runs", place, len(cells))
        outcome = run_cell(_cell(comparison, algorithm, name, epsilon, found.fleet), out / "cells")
        if outcome.error is not None:
            found.errors.setdefault(name, outcome.error)
        found.rmse.setdefault(name, {})[f"{epsilon:g}"] = _rmse(outcome)
    return found


def _require_sound(comparison: Comparison, algorithm: str) -> None:
    """Refuse what no fleet could be served with, before anything is measured.

    Raises:
        InputError: names the setting.
    """
    parse_config(overlay(msgspec.to_builtins(comparison.config), {"algorithm": algorithm}))
    chosen_algorithm(algorithm)
    users = comparison.users or comparison.clients or _MANY
    fleet = FleetSize(clients=comparison.clients or users, users=users, dropout=comparison.dropout)
    for name, settings in comparison.settings.items():
        fleet_settings(name, fleet, settings)


def _start(comparison: Comparison, algorithm: str, out: Path) -> Found:
    """A run of one round, whose board is what sessions ask about."""
    config = parse_config(
        overlay(
            msgspec.to_builtins(comparison.config),
            {
                "algorithm": algorithm,
                "settings": {"rounds": 1},
                "run": {"baselines": False, "evaluate_rounds": False},
            },
        )
    )
    cell = Cell(name=f"{label_of(algorithm)}-round", config=config)
    outcome = run_cell(cell, out / "cells")
    if outcome.error is not None:
        raise InputError(outcome.error)
    problem = shared_problem(config)
    users = comparison.users or problem.train.n_users
    clients = comparison.clients or users
    fleet = FleetSize(clients=clients, users=users, dropout=comparison.dropout)
    workload = workload_of(
        config,
        RunDirectory(out / "cells" / cell.name),
        problem,
        users_per_client=fleet.users_per_client,
        ratings=comparison.ratings,
        clients=_TYPICAL,
    )
    return Found(workload=workload, fleet=fleet)


def _cell(comparison: Comparison, algorithm: str, protocol: str, epsilon: float, fleet: FleetSize) -> Cell:
    """A run under one protocol; all share seed, and with it first factors and, at the server, the noise."""
    changes = {
        "algorithm": algorithm,
        "privacy": {"epsilon": epsilon},
        "run": {"baselines": False, "evaluate_rounds": False, **_of_run(comparison, protocol, fleet)},
    }
    config = parse_config(overlay(msgspec.to_builtins(comparison.config), changes))
    return Cell(name=f"{label_of(algorithm)}-{_plain(protocol)}-eps{epsilon:g}", config=config)


def _of_run(comparison: Comparison, protocol: str, fleet: FleetSize) -> dict[str, Any]:
    if says(protocol, shows_rows):  # rows are summed where they are, without sessions
        return {}
    return {
        "protocol": protocol,
        "protocol_settings": fleet_settings(protocol, fleet, comparison.settings.get(protocol, {})),
        "clients": comparison.clients,
        "masks": "real" if chosen_card(protocol).without_messages is None else "cancelled",
    }


def _plain(choice: str) -> str:
    """A name for a folder."""
    return re.sub(r"[^\w.-]+", "-", choice).strip("-.")


def _rmse(outcome: CellOutcome) -> float | None:
    return None if outcome.final is None else outcome.final["metrics"].get("test_rmse")
