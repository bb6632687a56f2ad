"""One table of all protocols: what each cost in real sessions, what it leaves of the accuracy, whom it trusts."""

import math
import os
import platform
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.errors import FedboardError, InputError
from fedboard.common.files import write_atomically
from fedboard.common.protocols.registry import PROTOCOL_NAMES, says
from fedboard.common.protocols.shared.properties import shows_rows
from fedboard.common.tasks.registry import named
from fedboard.simulations.comparing.measuring import Measured, bearing, measure, sizes_within
from fedboard.simulations.comparing.workload import Workload, workload_of
from fedboard.simulations.config import SimulationConfig, overlay, parse_config
from fedboard.simulations.runs.algorithm_choice import chosen_algorithm, label_of
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.sessions.choice import chosen_card
from fedboard.simulations.sweeps.cells import Cell, CellOutcome, run_cell, shared_problem

RECORD = "comparison.json"
_PLAN = "plan.json"
_MANY = 1000
"""Clients, to try settings on whose number the data will tell."""
_TYPICAL = 7
"""Typical clients whose parts are carried."""
_COSTS = ("bytes_up_per_user", "bytes_down_per_user", "client_seconds", "server_seconds", "steps")
_PACKAGES = ("fedboard", "numpy", "cryptography")

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
    clients: int | None = None
    """Host all users of the data; None: one for each user."""
    sessions: tuple[int, ...] | None = None
    """Clients of the sessions that are run and timed, ascending; None: ``USUAL_SIZES``, as far as they fit."""
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
        if self.sessions is not None and (not self.sessions or min(self.sessions) < 1):
            raise InputError(f"sessions must be numbers of clients >= 1, got {self.sessions}")


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
    record = _record(found, settings)
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


@dataclass(slots=True, kw_only=True)
class _Found:
    """What came of one algorithm."""

    workload: Workload
    users: int
    clients: int
    sessions: dict[str, list[Measured]] = field(default_factory=dict)
    """By protocol, the smallest first."""
    rmse: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """By protocol and epsilon."""
    errors: dict[str, str] = field(default_factory=dict)
    """By protocol: why a session was not run, or there is no error of prediction."""

    @property
    def users_per_client(self) -> int:
        """Users that a client hosts, at most."""
        return -(-self.users // self.clients)


def _of_algorithm(comparison: Comparison, algorithm: str, out: Path, on_progress: Progress) -> _Found:
    names = comparison.protocols
    _require_sound(comparison, algorithm)
    on_progress(f"{algorithm}: a typical round", 0, 1)
    found = _start(comparison, algorithm, out)
    sizes = sizes_within(comparison.sessions, found.workload.numbers)
    for place, name in enumerate(names):
        on_progress(f"{algorithm}: sessions", place, len(names))
        for size in sizes:
            try:
                ran = measure(
                    name,
                    found.workload,
                    clients=size,
                    users_per_client=found.users_per_client,
                    dropout=comparison.dropout,
                    settings=comparison.settings.get(name, {}),
                )
            except FedboardError as error:
                found.errors[name] = str(error)
            else:
                found.sessions.setdefault(name, []).append(ran)
    if not found.sessions:
        raise InputError(f"no protocol can serve such sessions: {found.errors[names[0]]}")
    cells = [(name, epsilon) for name in names for epsilon in comparison.epsilons]
    for place, (name, epsilon) in enumerate(cells):
        on_progress(f"{algorithm}: runs", place, len(cells))
        try:
            outcome = run_cell(_cell(comparison, algorithm, name, epsilon, found), out / "cells")
        except InputError as error:  # it cannot serve so many clients
            found.errors.setdefault(name, str(error))
            continue
        if outcome.error is not None:
            found.errors.setdefault(name, outcome.error)
        found.rmse.setdefault(name, {})[f"{epsilon:g}"] = _rmse(outcome)
    return found


def _require_sound(comparison: Comparison, algorithm: str) -> None:
    """Refuse what could not be run, before anything is measured.

    Raises:
        InputError: names the setting.
    """
    parse_config(overlay(msgspec.to_builtins(comparison.config), {"algorithm": algorithm}))
    chosen_algorithm(algorithm)
    clients = comparison.clients or _MANY
    for name, settings in comparison.settings.items():
        bearing(name, clients=clients, users=clients, dropout=comparison.dropout, settings=settings)


def _start(comparison: Comparison, algorithm: str, out: Path) -> _Found:
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
    users = problem.train.n_users
    clients = comparison.clients or users
    if clients > users:
        raise InputError(f"{clients:,} clients cannot host {users:,} users; at least one each")
    workload = workload_of(
        config,
        RunDirectory(out / "cells" / cell.name),
        problem,
        users_per_client=-(-users // clients),
        ratings=comparison.ratings,
        clients=_TYPICAL,
    )
    return _Found(workload=workload, users=users, clients=clients)


def _cell(comparison: Comparison, algorithm: str, protocol: str, epsilon: float, found: _Found) -> Cell:
    """A run under one protocol; all share seed, and with it first factors and, at the server, the noise."""
    changes = {
        "algorithm": algorithm,
        "privacy": {"epsilon": epsilon},
        "run": {"baselines": False, "evaluate_rounds": False, **_of_run(comparison, protocol, found)},
    }
    config = parse_config(overlay(msgspec.to_builtins(comparison.config), changes))
    return Cell(name=f"{label_of(algorithm)}-{_plain(protocol)}-eps{epsilon:g}", config=config)


def _of_run(comparison: Comparison, protocol: str, found: _Found) -> dict[str, Any]:
    if says(protocol, shows_rows):  # rows are summed where they are, without sessions
        return {}
    settings = comparison.settings.get(protocol, {})
    return {
        "protocol": protocol,
        "protocol_settings": bearing(
            protocol, clients=found.clients, users=found.users, dropout=comparison.dropout, settings=settings
        ),
        "clients": comparison.clients,
        "masks": "real" if chosen_card(protocol).without_messages is None else "cancelled",
    }


def _plain(choice: str) -> str:
    """A name for a folder."""
    return re.sub(r"[^\w.-]+", "-", choice).strip("-.")


def _rmse(outcome: CellOutcome) -> float | None:
    return None if outcome.final is None else outcome.final["metrics"].get("test_rmse")


def _record(found: Mapping[str, _Found], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The whole record; the first algorithm's protocols stand at the top level."""
    algorithms = {name: _record_of(each) for name, each in found.items()}
    first = next(iter(algorithms))
    return {
        "algorithm": first,
        "protocols": algorithms[first]["protocols"],
        "algorithms": algorithms,
        "settings": dict(settings),
        "versions": {name: version(name) for name in _PACKAGES} | {"python": platform.python_version()},
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "load": list(os.getloadavg())},
    }


def _record_of(found: _Found) -> dict[str, Any]:
    workload = found.workload
    return {
        "items": workload.board.catalogue.n_items,
        "users": found.users,
        "clients": found.clients,
        "users_per_client": found.users_per_client,
        "numbers": workload.numbers,
        "ratings_per_client": workload.ratings,
        "board_bytes": workload.board_bytes,
        "contribute_seconds": workload.contribute_seconds(),
        "protocols": {name: _line(name, found) for name in {**found.sessions, **found.rmse, **found.errors}},
    }


def _line(name: str, found: _Found) -> dict[str, Any]:
    """One protocol: its largest session, all of them, and what it leaves of the accuracy."""
    rmse, ran = found.rmse.get(name, {}), found.sessions.get(name, [])
    largest = max(rmse, key=float, default=None)
    sessions = [_session(each, found) for each in ran]
    line: dict[str, Any] = {
        "rmse": None if largest is None else rmse[largest],
        "rmse_epsilon": None if largest is None else float(largest),
        "rmse_by_epsilon": rmse,
        "sessions": sessions,
    }
    if not ran:
        line |= dict.fromkeys(_COSTS)
    else:
        protocol = ran[-1].protocol
        line |= {**sessions[-1], "noise_at": str(protocol.noise_at), "trust": asdict(protocol.trust)}
    if name in found.errors:
        line["error"] = found.errors[name]
    return line


def _session(ran: Measured, found: _Found) -> dict[str, Any]:
    hosted, client = found.users_per_client, ran.client
    return {
        "clients": ran.clients,
        "dropped": ran.dropped,
        "neighbours": ran.neighbours,
        "survivors_needed": int(ran.protocol.parameters.get("survivors", 1)),
        "steps": client.steps,
        "bytes_up_per_user": client.up / hosted,
        "bytes_down_per_user": (client.down + found.workload.board_bytes) / hosted,
        "client_seconds": client.seconds,
        "server_seconds": ran.server_seconds,
        "parameters": dict(ran.protocol.parameters),
    }
