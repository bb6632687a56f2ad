"""``fedboard sweep``: a grid of runs and their privacy-utility frontier."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.configuration import configure, data_options, listed, model_options
from fedboard.cli.failures import InterruptedRunError
from fedboard.cli.places import RUNS, fresh
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.simulations.sweep import Cell, CellOutcome, SweepResult

_GRID = "sweep.json"
_DEFAULTS = {"epsilon": "1,5,20", "algorithms": "adadpals,als", "seeds": "0"}
_EXAMPLES = """\b
Examples:
  fedboard sweep --data ml-1m/ --epsilon 1,5,20 --algorithms adadpals,dpals-uniform,als --seeds 0,1,2 --jobs 2
  fedboard sweep --out runs/sweep --resume
"""


@click.command(epilog=_EXAMPLES)
@click.argument("config_file", metavar="[CONFIG.toml]", required=False, type=click.Path(path_type=Path))
@data_options
@click.option("--algorithms", metavar="A,B", help=f"With or without privacy.  [default: {_DEFAULTS['algorithms']}]")
@click.option("--epsilon", metavar="E,F", help=f"Privacy budgets.  [default: {_DEFAULTS['epsilon']}]")
@click.option("--seeds", metavar="S,T", help=f"Seeds of noise and first factors.  [default: {_DEFAULTS['seeds']}]")
@model_options
@click.option("--out", type=click.Path(path_type=Path), help="Directory of the sweep.  [default: runs/sweep]")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Cells at the same time.")
@click.option("--resume", is_flag=True, help="Keep finished cells, go on with the others.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, at the end.")
def sweep(
    config_file: Path | None,
    algorithms: str | None,
    epsilon: str | None,
    seeds: str | None,
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
    if resume and out is None:
        raise InputError("--resume needs the sweep: give --out DIR")
    place = out or fresh(RUNS / "sweep")
    wanted = {"algorithms": algorithms, "epsilon": epsilon, "seeds": seeds}
    grid, base = _grid(place if resume else None, wanted, config_file)
    cells = _cells(grid, base, flags, assignments, source=str(config_file or "the flags"))
    result = _run(cells, place, jobs=jobs, resume=resume)
    click.echo(json.dumps(_record(result)) if as_json else _text(result, place))
    if result.failed:
        raise click.exceptions.Exit(1)


def _grid(
    resumed: Path | None, wanted: Mapping[str, str | None], config_file: Path | None
) -> tuple[dict[str, str], Mapping[str, Any]]:
    """Axes and shared configuration: of the sweep to resume, with what is asked for laid over them."""
    from fedboard.simulations.config import read_config

    stored: dict[str, Any] = {"grid": _DEFAULTS, "config": {}}
    if resumed is not None:
        if not (resumed / _GRID).exists():
            raise InputError(f"{resumed} holds no sweep to resume; start it without --resume")
        stored = json.loads((resumed / _GRID).read_text(encoding="utf-8"))
    base = stored["config"] if config_file is None else read_config(config_file)
    return {**stored["grid"], **{axis: text for axis, text in wanted.items() if text is not None}}, base


def _cells(
    grid: Mapping[str, str],
    base: Mapping[str, Any],
    flags: Mapping[str, Any],
    assignments: tuple[str, ...],
    *,
    source: str,
) -> "tuple[Cell, ...]":
    from fedboard.simulations.sweep import plan_cells

    config = configure(base, flags, assignments, source=source)
    epsilons = listed(grid["epsilon"], float, "--epsilon")
    for value in epsilons:  # each cell's configuration is checked before any of them runs
        configure(base, {**flags, "epsilon": value}, assignments, source="--epsilon")
    return plan_cells(
        config,
        algorithms=listed(grid["algorithms"], str, "--algorithms"),
        epsilons=epsilons,
        seeds=listed(grid["seeds"], int, "--seeds"),
    )


def _run(cells: "tuple[Cell, ...]", place: Path, *, jobs: int, resume: bool) -> "SweepResult":
    from fedboard.simulations.sweep import sweep as run_sweep

    done = 0

    def told(outcome: "CellOutcome") -> None:
        nonlocal done
        done += 1
        state = "failed" if outcome.error else "was finished" if outcome.was_finished else "finished"
        click.echo(f"{done} of {len(cells)}: {outcome.cell.name} {state}", err=True)

    try:
        return run_sweep(cells, place, jobs=jobs, resume=resume, on_done=told)
    except KeyboardInterrupt:
        again = f"fedboard sweep --out {shlex.quote(str(place))} --resume"
        raise InterruptedRunError(f"interrupted; go on with: {again}") from None


def _record(result: "SweepResult") -> dict[str, Any]:
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
    return "\n\n".join(parts)


__all__ = ["sweep"]
