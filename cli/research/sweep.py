"""``fedboard sweep``: a grid of runs and their privacy-utility frontier."""

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.counts import FOLDS, WORKERS
from fedboard.cli.documents import JSON, document
from fedboard.cli.failures import resumable
from fedboard.cli.names import NamedOption
from fedboard.cli.research.configuration import configure, data_options, listed, model_options
from fedboard.cli.text import Countdown
from fedboard.common.errors import InputError
from fedboard.common.protocols.registry import USUAL

if TYPE_CHECKING:
    from fedboard.simulations.sweeps.cells import CellOutcome
    from fedboard.simulations.sweeps.sweep import SweepRecord, SweepResult

_AXES: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "algorithms": (str, "--algorithms"),
    "epsilons": (float, "--epsilon"),
    "seeds": (int, "--seeds"),
    "protocols": (str, "--protocols"),
}
"""Axis of the grid: kind of its values, and the option that gives them."""
_EXAMPLES = """\b
Examples:
  fedboard sweep --data ml-1m/ --epsilon 1,5,20 --algorithms adadpals,dpals-uniform,als --seeds 0,1,2 --jobs 2
  fedboard sweep --data ml-100k/ --epsilon 5 --folds 5
  fedboard sweep --out runs/sweep --resume
"""


def _default_axis() -> str:
    from fedboard.cli.names import default_algorithm
    from fedboard.simulations.evaluation.references import ALS

    return default_algorithm().replace("]", f"; beside it {ALS}]")


@click.command(epilog=_EXAMPLES)
@click.argument("config_file", metavar="[CONFIG.toml]", required=False, type=click.Path(path_type=Path))
@data_options
@click.option(
    "--algorithms", cls=NamedOption, metavar="A,B", help="With or without privacy.", names=_default_axis
)
@click.option(
    "--floors/--no-floors",
    default=None,
    help="Also the simplest private algorithms, as lines to beat.  [default: where --algorithms is not given]",
)
@click.option("--epsilon", metavar="E,F", help="Privacy budgets.  [default: 1,5,20]")
@click.option("--seeds", metavar="S,T", help="Seeds of noise and first factors.  [default: 0]")
@click.option("--protocols", metavar="P,Q", help=f"Every private cell under each.  [default: {USUAL}]")
@click.option(
    "--folds",
    type=FOLDS,
    metavar="K",
    help="Every cell on each of the k folds of the ratings, or users; the table has their means and deviations.",
)
@model_options
@click.option("--out", type=click.Path(path_type=Path), help="Directory of the sweep.  [default: runs/sweep]")
@click.option("--jobs", type=WORKERS, default=1, show_default=True, help="Cells at the same time.")
@click.option("--resume", is_flag=True, help="Keep finished cells, go on with the others.")
@JSON
def sweep(
    config_file: Path | None,
    algorithms: str | None,
    floors: bool | None,
    epsilon: str | None,
    seeds: str | None,
    protocols: str | None,
    folds: int | None,
    out: Path | None,
    jobs: int,
    resume: bool,
    as_json: bool,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run every combination of algorithm, epsilon and seed, then draw the frontier.

    Each cell is a run of its own in DIR/cells; algorithms without privacy run once. A cell that fails does not
    stop the others: it is named at the end, and the exit code is 1.
    """
    from fedboard.simulations.problem import require_data
    from fedboard.simulations.runs.directory import RUNS, fresh

    if resume and out is None:
        raise InputError("--resume needs the sweep: give --out DIR")
    place = out or fresh(RUNS / "sweep")
    axes = {"algorithms": algorithms, "epsilons": epsilon, "seeds": seeds, "protocols": protocols}
    record = _assembled(place, config_file, axes, flags, assignments, resume=resume)
    if folds is not None:
        record = _with(record, folds=folds)
    if floors is not None or not (resume or algorithms):
        record = _with(record, floors=floors is not False)
    require_data(record.config.data, times=record.config.split.by_time)
    result = _run(record, place, jobs=jobs, resume=resume)
    document(_summary(result)) if as_json else click.echo(_text(result, place))
    if result.failed:
        raise click.exceptions.Exit(1)


def _assembled(
    place: Path,
    config_file: Path | None,
    axes: Mapping[str, str | None],
    flags: Mapping[str, Any],
    assignments: tuple[str, ...],
    *,
    resume: bool,
) -> "SweepRecord":
    """What is asked for, laid over the file, or over the record of the sweep to resume."""
    import msgspec

    from fedboard.simulations.config import read_config
    from fedboard.simulations.sweeps.sweep import SweepRecord, read_record

    earlier = read_record(place) if resume else SweepRecord()
    base = msgspec.to_builtins(earlier.config) if resume else {}
    base = base if config_file is None else read_config(config_file)
    config = configure(base, flags, assignments, source=str(config_file or "the flags"))
    given = {axis: listed(text, *_AXES[axis]) for axis, text in axes.items() if text is not None}
    return SweepRecord(grid=msgspec.structs.replace(earlier.grid, **given), config=config)


def _with(record: "SweepRecord", **axes: Any) -> "SweepRecord":
    import msgspec

    return msgspec.structs.replace(record, grid=msgspec.structs.replace(record.grid, **axes))


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


def _summary(result: "SweepResult") -> dict[str, Any]:
    cells = [
        {
            "cell": outcome.cell.name,
            "algorithm": outcome.cell.config.algorithm,
            "metrics": None if outcome.final is None else outcome.final["metrics"],
            "error": outcome.error,
        }
        for outcome in result.outcomes
    ]
    return {"cells": cells, "frontier": [str(path) for path in result.frontier]}


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
