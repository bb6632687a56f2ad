"""Other private algorithms beside a run, at the same epsilon, on the same data: each a run in a folder within."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fedboard.common.tasks.registry import floor_names
from fedboard.simulations.config import SimulationConfig
from fedboard.simulations.engine import WorkerPool
from fedboard.simulations.problem import Problem
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.simulate import simulate
from fedboard.simulations.streams.problem import StreamedProblem


def run_beside(
    names: Sequence[str],
    config: SimulationConfig,
    place: Path,
    *,
    problem: Problem | StreamedProblem | None,
    pool: WorkerPool,
    on_progress: Callable[[str, int, int], None],
) -> dict[str, Mapping[str, float]]:
    """Run them, and keep what they reach in the run's beside.json, for its report.

    A floor runs as it is shipped, whatever settings the others have.

    Args:
        names: of algorithms.
        config: of the run.
        place: its directory.
        problem: its data, if they are loaded already. Private.
        pool: who computes.
        on_progress: told ("beside", runs done, runs in all).

    Returns:
        Held-out metrics by name. Not private: simulation only.
    """
    run, found = RunDirectory(place), dict[str, Mapping[str, float]]()
    floors = floor_names(config.feedback)
    quiet = msgspec.structs.replace(config.run, baselines=False, evaluate_rounds=False)
    for done, name in enumerate(names):
        on_progress("beside", done, len(names))
        settings: dict[str, Any] = {} if name in floors else config.settings
        other = msgspec.structs.replace(config, algorithm=name, run=quiet, settings=settings)
        final = simulate(other, place / name, problem=problem, report=False, pool=pool).final
        found[name] = final["metrics"]
    on_progress("beside", len(names), len(names))
    epsilon = config.privacy.epsilon
    entries = {
        name: {"epsilon": epsilon, "floor": name in floors, "metrics": dict(metrics)}
        for name, metrics in found.items()
    }
    run.write_json(run.beside, entries)
    return found
