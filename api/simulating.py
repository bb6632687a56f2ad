"""Whole runs from Python: one, or a grid of them."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from fedboard.common.algorithms.registry import usual
from fedboard.common.errors import InputError
from fedboard.configuring import configuration_of, require_main_process
from fedboard.ratings import InMemory
from fedboard.run import Run
from fedboard.simulations.evaluation.references import is_reference
from fedboard.simulations.runs.directory import RUNS, fresh
from fedboard.simulations.runs.progress import listening
from fedboard.simulations.runs.without_privacy import name_of, require_runnable
from fedboard.simulations.simulate import simulate as run_private
from fedboard.simulations.sweeps.cells import CellOutcome
from fedboard.simulations.sweeps.sweep import Grid, SweepRecord
from fedboard.simulations.sweeps.sweep import sweep as run_sweep


def simulate(
    *,
    data: str | Path | Mapping[str, Any] | InMemory | None = None,
    algorithm: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    feedback: Literal["explicit", "implicit"] | None = None,
    rank: int | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    noise: Literal["seeded", "secure"] | None = None,
    protocol: str | None = None,
    workers: int | None = None,
    baselines: bool | None = None,
    config: str | Path | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    report: bool = True,
    progress: bool = False,
    **keys: Any,
) -> Run:
    """Run one private simulation, from ratings to board, certificate and report.

    Args:
        data: a path, ``"synthetic"`` (the default), a data frame with the columns user, item and rating, or users,
            items and ratings as three arrays; with ``rating_range=(1, 5)`` where the format does not tell. Private.
        algorithm: by name or ``FILE.py:RECORD``; see ``fedboard.algorithms()``.
        epsilon: of the whole run, for each user; default 5.
        delta: default 1e-5; keep it well below one over the number of users.
        feedback: default ``explicit``.
        rank: length of the vectors.
        rounds: not counting what prepares them.
        seed: of first factors, sampling and seeded noise.
        noise: ``seeded`` repeats bit for bit and protects nobody (the default); ``secure`` protects.
        protocol: who adds up; default ``trusted``; see ``fedboard.protocols()``.
        workers: processes; with more than one, what starts a run stands below ``if __name__ == "__main__":`` in a
            file. In a notebook nothing is needed.
        baselines: whether to fit models without privacy for comparison; default True.
        config: a TOML file, or what one would hold; all other keywords are laid over it.
        out: directory of the run; default a fresh one in ``runs``.
        resume: go on with the run that is there.
        report: whether to draw ``report.html``.
        progress: whether to tell on stderr how it is getting on.
        keys: every other key of the configuration: a section such as ``privacy={"adjacency": "replace"}`` or
            ``settings={"clip_norm": 0.5}``, or a short name that the command line has as a flag.

    Returns:
        The finished run.

    Raises:
        InputError: a key, a value or data that cannot be used; nothing is left behind.
        BudgetExceededError: the plan does not fit the budget; nothing was released.
        WorkerDiedError: a worker process was killed; resume when the cause is mended.
    """
    require_main_process()
    short = {
        "algorithm": algorithm,
        "epsilon": epsilon,
        "delta": delta,
        "feedback": feedback,
        "rank": rank,
        "rounds": rounds,
        "seed": seed,
        "noise": noise,
        "protocol": protocol,
        "workers": workers,
        "baselines": baselines,
    }
    if resume and out is None:
        raise InputError("resume=True needs the run: give out=DIRECTORY")
    place = None if out is None else Path(out)
    asked, problem = configuration_of(config, data, {**short, **keys}, place=place, resume=resume)
    require_runnable(asked)
    if is_reference(asked.algorithm):
        raise InputError(
            f"{asked.algorithm} is without privacy and has no certificate; compare with it by "
            f"fedboard.sweep(algorithms=[{usual(asked.feedback)!r}, {asked.algorithm!r}])"
        )
    with ExitStack() as stack:
        listener = stack.enter_context(listening(asked)) if progress else None
        done = run_private(
            asked,
            place or fresh(RUNS / name_of(asked)),
            resume=resume,
            listener=listener,
            problem=problem,
            report=report,
        )
    return Run.of(done, problem)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sweep:
    """A finished grid of runs."""

    path: Path
    """Its directory."""
    rows: tuple[dict[str, Any], ...]
    """One per cell that succeeded: algorithm, epsilon, seed and held-out metrics; for ``pandas.DataFrame(rows)``.
    Metrics are not private: simulation only."""
    failed: tuple[CellOutcome, ...]
    """Cells that ended with an error, which each of them carries."""
    report: Path | None
    """The frontier as a page; None where every cell failed."""

    def __repr__(self) -> str:
        """One line."""
        return f"<Sweep: {len(self.rows)} runs, {len(self.failed)} failed; {self.report or self.path}>"


def sweep(
    *,
    algorithms: Sequence[str] | None = None,
    floors: bool | None = None,
    epsilons: Sequence[float] = Grid().epsilons,
    seeds: Sequence[int] = Grid().seeds,
    data: str | Path | Mapping[str, Any] | InMemory | None = None,
    config: str | Path | Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
    resume: bool = False,
    **keys: Any,
) -> Sweep:
    """Run every combination of algorithm, epsilon and seed, and draw the privacy-utility frontier.

    Args:
        algorithms: private ones, and models without privacy, which run once; None for the default one and ``als``.
        floors: whether the simplest private algorithms are run too, as lines to beat; None: where ``algorithms``
            is.
        epsilons: budgets.
        seeds: of noise and first factors.
        data: as for ``simulate``; in memory only with ``jobs=1``.
        config: as for ``simulate``.
        out: directory of the sweep; default a fresh one in ``runs``.
        jobs: runs at the same time, each in a process; more than one needs ``if __name__ == "__main__":``.
        resume: keep finished runs and go on with the others.
        keys: what all runs share, as for ``simulate``.

    Raises:
        InputError: the grid cannot be run.
    """
    require_main_process()
    place = fresh(RUNS / "sweep") if out is None else Path(out)
    asked, problem = configuration_of(config, data, keys)
    if problem is not None and jobs > 1:
        raise InputError("ratings in memory go with jobs=1; write them to a file for more processes")
    grid = Grid(
        algorithms=Grid().algorithms if algorithms is None else tuple(algorithms),
        floors=algorithms is None if floors is None else floors,
        epsilons=tuple(map(float, epsilons)),
        seeds=tuple(seeds),
    )
    found = run_sweep(SweepRecord(grid=grid, config=asked), place, jobs=jobs, resume=resume, problem=problem)
    return Sweep(
        path=place,
        rows=tuple(_row(outcome) for outcome in found.outcomes if outcome.final is not None),
        failed=found.failed,
        report=next((path for path in found.frontier if path.suffix == ".html"), None),
    )


def _row(outcome: CellOutcome) -> dict[str, Any]:
    config = outcome.cell.config
    private = not is_reference(config.algorithm)
    metrics = msgspec.to_builtins((outcome.final or {})["metrics"])
    return {
        "algorithm": config.algorithm,
        "epsilon": config.privacy.epsilon if private else None,
        "seed": config.seed,
        **metrics,
    }
