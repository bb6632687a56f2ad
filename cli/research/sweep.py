"""``fedboard sweep``: a grid of runs and their privacy-utility frontier."""

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.declaring import argument, command, option
from fedboard.cli.documents import JSON, answer
from fedboard.cli.failures import resumable
from fedboard.cli.options import FOLDS, WORKERS, default_algorithm, listed
from fedboard.cli.research.configuration import configure, flags
from fedboard.cli.text import Countdown
from fedboard.common.errors import InputError
from fedboard.common.protocols.registry import USUAL

if TYPE_CHECKING:
    from fedboard.simulations.sweeps.cells import CellOutcome
    from fedboard.simulations.sweeps.sweep import SweepRecord, SweepResult


def _default_axis() -> str:
    from fedboard.simulations.evaluation.references import ALS

    return default_algorithm().replace("]", f"; beside it {ALS}]")


def _axis(kind: Callable[[str], Any], flag: str) -> Callable[[str], tuple[Any, ...]]:
    """The type of an option that lists values of an axis of the grid."""
    return lambda text: listed(text, kind, flag)


@command(
    "fedboard sweep --data ml-1m/ --epsilon 1,5,20 --algorithms adadpals,dpals-uniform,als --seeds 0,1,2 --jobs 2",
    "fedboard sweep --data ml-100k/ --epsilon 5 --folds 5",
    "fedboard sweep --out runs/sweep --resume",
    also=flags("data", "columns", "rating_range", "feedback", "rounds", "assignments"),
)
def sweep(
    config_file: Path | None = argument("[CONFIG.toml]"),
    algorithms: tuple[str, ...] | None = option(
        "Names; those without privacy run once.",
        more=_default_axis,
        metavar="A,B",
        type=_axis(str, "--algorithms"),
    ),
    floors: bool | None = option(
        "Also the simplest private algorithms.",
        "--floors/--no-floors",
        more="[default: where --algorithms is not given]",
        default=None,
    ),
    epsilons: tuple[float, ...] | None = option(
        "Privacy budgets.  [default: 1,5,20]", "--epsilon", metavar="E,F", type=_axis(float, "--epsilon")
    ),
    seeds: tuple[int, ...] | None = option(
        "Of noise and first factors.  [default: 0]", metavar="S,T", type=_axis(int, "--seeds")
    ),
    protocols: tuple[str, ...] | None = option(
        f"Every private cell under each.  [default: {USUAL}]",
        metavar="P,Q",
        type=_axis(str, "--protocols"),
        rare=True,
    ),
    folds: int | None = option(
        "Every cell on each of K folds.",
        more="Of the ratings, or users; the table has their means and deviations.",
        type=FOLDS,
        metavar="K",
    ),
    out: Path | None = option("Directory.  [default: runs/sweep]"),
    jobs: int = option("Cells at the same time.", type=WORKERS, default=1),
    resume: bool = option("Keep finished cells, run the others."),
    as_json: bool = JSON,
    assignments: tuple[str, ...] = (),
    **flags: Any,
) -> None:
    """Run algorithms at several epsilons, and draw the frontier.

    Every combination of algorithm, epsilon and seed is a cell: a run of its own in DIR/cells; algorithms without
    privacy run once. A cell that fails does not stop the others: it is named at the end, and the exit code is 1.
    """
    import msgspec

    from fedboard.simulations.config import base_of
    from fedboard.simulations.problem import require_data
    from fedboard.simulations.runs.directory import RUNS, fresh
    from fedboard.simulations.sweeps.sweep import SweepRecord, read_record

    if resume and out is None:
        raise InputError("--resume needs the sweep: give --out DIR")
    place = out or fresh(RUNS / "sweep")
    earlier = read_record(place) if resume else SweepRecord()
    base = msgspec.to_builtins(earlier.config) if resume and config_file is None else {}
    base = base or base_of(config_file, None, resume=False)
    if floors is None and not (resume or algorithms):
        floors = True
    axes = {"algorithms": algorithms, "epsilons": epsilons, "seeds": seeds, "protocols": protocols}
    given: Mapping[str, Any] = {**axes, "folds": folds, "floors": floors}
    record = SweepRecord(
        grid=msgspec.structs.replace(
            earlier.grid, **{axis: values for axis, values in given.items() if values is not None}
        ),
        config=configure(base, flags, assignments, source=str(config_file or "the flags")),
    )
    require_data(record.config.data, times=record.config.split.by_time)
    result = _run(record, place, jobs=jobs, resume=resume)
    cells = [
        {
            "cell": outcome.cell.name,
            "algorithm": outcome.cell.config.algorithm,
            "metrics": None if outcome.final is None else outcome.final["metrics"],
            "error": outcome.error,
        }
        for outcome in result.outcomes
    ]
    summary = {"cells": cells, "frontier": [str(path) for path in result.frontier]}
    answer(summary, _text(result, place), as_json=as_json)
    if result.failed:
        raise click.exceptions.Exit(1)


def _run(record: "SweepRecord", place: Path, *, jobs: int, resume: bool) -> "SweepResult":
    from fedboard.simulations.sweeps.sweep import plan_cells
    from fedboard.simulations.sweeps.sweep import sweep as run_sweep

    cells = len(plan_cells(record))
    click.echo(f"{cells} cells, {jobs} at a time; how long they take is told after the first", err=True)
    done, left = count(1), Countdown(cells)

    def told(outcome: "CellOutcome") -> None:
        state = "failed" if outcome.error else "was finished" if outcome.was_finished else "finished"
        name, rest = outcome.cell.name, left.told(kept=outcome.was_finished)
        click.echo(f"cell {next(done)} of {cells}: {name} {state}{rest}", err=True)

    with resumable("sweep", place, "sweep.json"):
        return run_sweep(record, place, jobs=jobs, resume=resume, on_done=told)


def _text(result: "SweepResult", place: Path) -> str:
    parts = []
    if result.frontier:
        parts.append((place / "frontier.md").read_text(encoding="utf-8").strip())
        parts.append(f"Frontier  {place / 'frontier.html'}")
    if result.failed:
        failures = "\n".join(f"- {outcome.cell.name}: {outcome.error}" for outcome in result.failed)
        parts.append(f"{len(result.failed)} of {len(result.outcomes)} cells failed:\n{failures}")
        parts.append(f"Tracebacks  {place / 'failures.txt'}")
    return "\n\n".join(parts)
