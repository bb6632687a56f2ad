"""Running the cells of the frontier benchmark: in worker processes that stay, each run timed and kept."""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from accuracy.frontier_plan import Run
from fedboard.common.certificate import Certificate
from fedboard.common.errors import FedboardError
from fedboard.common.files import write_atomically
from fedboard.server.publication import BoardStore
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.runs.without_privacy import is_reference
from fedboard.simulations.sweeps.cells import run_cell, shared_problem


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run and what it cost."""

    run: Run
    final: dict[str, Any] | None
    """The last record of its metrics.jsonl; None if it failed."""
    error: str | None
    cpu_seconds: float
    """Of everything after the ratings were loaded: rounds, certificate, judging, report."""
    wall_seconds: float
    kept: bool
    """Whether an earlier call had finished it."""


def measure_all(runs: Sequence[Run], out: Path, *, jobs: int) -> tuple[list[Measured], float]:
    """Run everything that is not finished; also the CPU seconds of all processes of this call."""
    work = [
        partial(measure, run, folder_of(run, out), f"[{number}/{len(runs)}]")
        for number, run in enumerate(runs, start=1)
    ]
    before = time.process_time()
    with WorkerPool(min(jobs, len(runs))) as pool:
        measured: list[tuple[Measured, float]] = pool.run(work)
    spread = sum(total for _, total in measured) if pool.n_workers > 1 else 0.0
    return [outcome for outcome, _ in measured], time.process_time() - before + spread


def folder_of(run: Run, out: Path) -> Path:
    return out / f"{run.data}-{run.feedback}"


def measure(run: Run, folder: Path, place: str) -> tuple[Measured, float]:
    """Run one cell, or read what it gave; and the CPU seconds of this process for it, ratings included."""
    started = time.process_time()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        outcome = _timed(run, folder)
    except FedboardError as error:  # the ratings could not be loaded
        outcome = Measured(
            run=run, final=None, error=str(error), cpu_seconds=0.0, wall_seconds=0.0, kept=False
        )
    print(f"{place} {run.data} {run.feedback} {run.cell.name}: {_told(outcome)}", file=sys.stderr, flush=True)
    return outcome, time.process_time() - started


def _timed(run: Run, folder: Path) -> Measured:
    times = folder / run.cell.name / "times.json"
    if not times.exists():
        shared_problem(run.cell.config)
    cpu, wall = time.process_time(), time.perf_counter()
    outcome = run_cell(run.cell, folder)
    spent = {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}
    if outcome.was_finished and times.exists():
        spent = json.loads(times.read_text(encoding="utf-8"))
    elif outcome.error is None:
        write_atomically(times, json.dumps(spent).encode())
    return Measured(run=run, final=outcome.final, error=outcome.error, kept=outcome.was_finished, **spent)


def _told(outcome: Measured) -> str:
    if outcome.final is None:
        return f"failed: {outcome.error}"
    metrics = outcome.final["metrics"]
    name = next(iter(metrics))
    kept = "kept" if outcome.kept else f"{outcome.cpu_seconds:.1f} CPU s"
    return f"{name} {metrics[name]:.4f}, {kept}"


def promised(outcome: Measured, out: Path) -> dict[str, Any] | None:
    """Guarantee, recomputed, and public configuration of a private run; None for the others."""
    if outcome.final is None or is_reference(outcome.run.cell.config.algorithm):
        return None
    folder = folder_of(outcome.run, out) / outcome.run.cell.name
    held = Certificate.from_json((folder / "certificate.json").read_text(encoding="utf-8"))
    if not held.holds:
        raise FedboardError(f"{folder}: its certificate does not verify")
    configuration = BoardStore(folder / "boards").latest().config
    hidden = ("noise_multipliers", "public_seed", "device_seed")
    return {
        "epsilon_spent": held.claim.epsilon,
        "delta": held.claim.delta,
        "releases": len(held.releases),
        "settings": {key: value for key, value in configuration.items() if key not in hidden},
    }
