"""``fedboard simulate``: one run, from ratings to board, certificate and report."""

import errno
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.documents import JSON, document
from fedboard.cli.failures import InterruptedRunError
from fedboard.cli.live_page import LIVE
from fedboard.cli.names import NamedOption, private_algorithms
from fedboard.cli.research.configuration import NOISE, configure, data_options, model_options
from fedboard.cli.text import folded
from fedboard.common.errors import InputError, StorageError
from fedboard.common.protocols.registry import PROTOCOL_NAMES, USUAL

if TYPE_CHECKING:
    from fedboard.cli.research.summary import Told
    from fedboard.simulations.config import SimulationConfig
    from fedboard.simulations.problem import Problem
    from fedboard.simulations.runs.trainer import Listener
    from fedboard.simulations.simulate import RunResult


_EXAMPLES = """\b
Examples:
  fedboard simulate --data ml-1m/ --epsilon 5 --workers 2
  fedboard simulate examples/simulate.toml --set settings.clip_norm=0.5
  fedboard simulate --data synthetic --algorithm adadpals
  fedboard simulate --data people.csv --algorithm representation
  fedboard simulate --out runs/residual-eps5 --resume
"""

_COPIES = (
    "Resume one copy of this folder at most: each draws new noise for the same users; see privacy.population"
)


def _algorithms() -> str:
    from fedboard.common.algorithms.registry import example_algorithm_names
    from fedboard.simulations.evaluation.references import every_reference

    on_examples = f"; on examples, features with a label: {', '.join(example_algorithm_names())}"
    return private_algorithms(f"; without privacy: {', '.join(every_reference())}{on_examples}")


@click.command(epilog=_EXAMPLES)
@click.argument("config_file", metavar="[CONFIG.toml]", required=False, type=click.Path(path_type=Path))
@data_options
@click.option("--algorithm", cls=NamedOption, metavar="NAME", names=_algorithms)
@click.option("--epsilon", type=float, help="Privacy budget of the whole run.  [default: 5]")
@model_options
@NOISE
@click.option("--delta", type=float, hidden=True, help="Of the guarantee.  [default: 1e-5]")
@click.option(
    "--participation",
    metavar="KIND[:NUMBER]",
    hidden=True,
    help="Who takes part in a round: full, poisson:PROBABILITY; where neighbours replace each other also "
    "fixed-size:USERS or shuffled-cohorts:NUMBER.",
)
@click.option(
    "--population",
    metavar="FILE",
    hidden=True,
    help="Account of these users over all runs; see fedboard ledger.",
)
@click.option("--seed", type=int, help="First factors, sampling and seeded noise.")
@click.option("--workers", type=int, help="Worker processes; never changes the result.")
@click.option(
    "--runtime",
    type=click.Choice(["engine", "ray", "in-process", "flower"]),
    hidden=True,
    help="Where clients run: the engine's processes, workers of a Ray cluster, a Flower grid in this process, or "
    "Flower's simulation on Ray; never changes the result.  [default: engine]",
)
@click.option(
    "--protocol",
    metavar="NAME",
    help=f"How contributions become sums: {', '.join(PROTOCOL_NAMES)}, or your own as package.module:Class or "
    f"path/to/file.py:Class.  [default: {USUAL}]",
)
@click.option(
    "--clients",
    type=int,
    hidden=True,
    help="Clients of such a protocol; if not given every user is one, or on Flower every node.",
)
@click.option(
    "--dropout", type=float, hidden=True, help="Share of the clients that is lost in each round.  [engine]"
)
@click.option("--out", type=click.Path(path_type=Path), help="Directory of the run.")
@click.option("--resume", is_flag=True, help="Go on with the run there; of its copies, with one at most.")
@click.option(
    "--no-baselines", is_flag=True, hidden=True, help="Skip the comparison with models without privacy."
)
@click.option("--no-report", is_flag=True, hidden=True, help="Draw no report.html.")
@JSON
@LIVE
def simulate(
    config_file: Path | None,
    out: Path | None,
    resume: bool,
    no_baselines: bool,
    no_report: bool,
    as_json: bool,
    live: str | None,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run one simulation of federated learning under a privacy budget.

    CONFIG.toml says what to run; flags and --set are laid over it. Without either, made-up data are learnt with
    the default algorithm at epsilon 5. A run that was interrupted or killed goes on with --out DIR --resume.
    """
    from fedboard.cli.research.live import watched
    from fedboard.simulations.config import base_of
    from fedboard.simulations.runs.directory import RUNS, fresh
    from fedboard.simulations.runs.without_privacy import name_of

    flags["baselines"] = False if no_baselines else None
    if resume and out is None:
        raise InputError("--resume needs the run: give --out DIR")
    config = configure(
        base_of(config_file, out, resume=resume), flags, assignments, source=str(config_file or "the flags")
    )
    place = out or fresh(RUNS / name_of(config))
    if resume and config.privacy.noise == "secure" and config.privacy.population is None:
        click.echo(_COPIES, err=True)
    with watched(config, place, live):
        told = run(config, place, resume=resume, report=not no_report)
    if as_json:
        document(told.record)
    else:
        click.echo("\n\n".join(part for part in (folded(told.text), told.verdict) if part))


def run(
    config: "SimulationConfig",
    place: Path,
    *,
    resume: bool,
    problem: "Problem | None" = None,
    beside: Sequence[str] = (),
    page: Path | None = None,
    report: bool = True,
) -> "Told":
    """Run to the end; what there is to say about it.

    Args:
        config: what to run.
        place: the run's directory.
        resume: whether it goes on there.
        problem: the data, if they are loaded already. Private.
        beside: other private algorithms, each run by itself at the same epsilon for a line in the table.
        page: where to write the board as a page that recommends, if anywhere.
        report: whether to draw report.html.

    Raises:
        InputError: an unknown algorithm, or one that cannot run there.
        InterruptedRunError: Ctrl-C, with the command that goes on.
        StorageError: a full disk, with the command that goes on.
    """
    from fedboard.cli.research.summary import private_summary, reference_summary
    from fedboard.simulations.evaluation.references import is_reference
    from fedboard.simulations.runs.progress import listening
    from fedboard.simulations.runs.without_privacy import require_runnable, run_reference

    require_runnable(config)
    try:
        with listening(config) as listener:
            if is_reference(config.algorithm):
                final = run_reference(config, place, resume=resume, problem=problem)
                return reference_summary(config, place, final)
            if beside or page is not None:
                result, others = _run_beside(
                    config, place, listener, problem=problem, beside=beside, page=page
                )
            else:
                result, others = _run_alone(
                    config, place, listener, resume=resume, report=report, problem=problem
                )
        return private_summary(config, result, others, page=page)
    except KeyboardInterrupt:
        raise InterruptedRunError(_how_to_go_on(place)) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        full = f"{error.filename or place}: {error.strerror}"
        raise StorageError(f"{full}; free some space. The run was {_how_to_go_on(place)}") from error


def _run_alone(
    config: "SimulationConfig",
    place: Path,
    listener: "Listener",
    *,
    resume: bool,
    report: bool,
    problem: "Problem | None",
) -> "tuple[RunResult, Mapping[str, Mapping[str, float]]]":
    from fedboard.simulations.simulate import simulate as run_private

    result = run_private(config, place, resume=resume, listener=listener, problem=problem, report=report)
    return result, {}


def _run_beside(
    config: "SimulationConfig",
    place: Path,
    listener: "Listener",
    *,
    problem: "Problem | None",
    beside: Sequence[str],
    page: Path | None,
) -> "tuple[RunResult, Mapping[str, Mapping[str, float]]]":
    """A run, then others on the same processes, then what is drawn of them all."""
    from fedboard.client.page.boards import held_board
    from fedboard.client.page.writing import write_page
    from fedboard.simulations.engine import WorkerPool
    from fedboard.simulations.simulate import require_installed, write_report
    from fedboard.simulations.simulate import simulate as run_private
    from fedboard.simulations.sweeps.cells import run_beside

    require_installed(report=True)
    with WorkerPool(config.run.workers, compiled=config.run.kernels != "numpy") as pool:
        result = run_private(config, place, listener=listener, problem=problem, report=False, pool=pool)
        others = run_beside(beside, config, place, problem=problem, pool=pool, on_progress=listener.progress)
    if page is not None:
        write_page(page, held_board(str(place), key=None))
    return replace(result, report=write_report(place)), others


def _how_to_go_on(place: Path) -> str:
    if not (place / "config.json").exists():
        return "interrupted before anything was written"
    return f"interrupted; go on with: fedboard simulate --out {shlex.quote(str(place))} --resume"
