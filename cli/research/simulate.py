"""``fedboard simulate``: one run, from ratings to board, certificate and report."""

import errno
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.declaring import argument, command, option
from fedboard.cli.documents import JSON, document
from fedboard.cli.failures import InterruptedRunError
from fedboard.cli.options import private_algorithms
from fedboard.cli.research.configuration import configure, flags
from fedboard.cli.research.live import LIVE
from fedboard.common.errors import InputError, StorageError

if TYPE_CHECKING:
    from fedboard.cli.research.summary import Told
    from fedboard.simulations.config import SimulationConfig
    from fedboard.simulations.problem import Problem
    from fedboard.simulations.runs.trainer import Listener
    from fedboard.simulations.simulate import RunResult

_COPIES = (
    "Resume one copy of this folder at most: each draws new noise for the same users; see privacy.population"
)


def _algorithms() -> str:
    from fedboard.common.algorithms.registry import example_algorithm_names
    from fedboard.simulations.evaluation.references import every_reference

    on_examples = f"; on examples, features with a label: {', '.join(example_algorithm_names())}"
    return private_algorithms(f"; without privacy: {', '.join(every_reference())}{on_examples}")


_FLAGS = flags(
    *(
        "data",
        "columns",
        "rating_range",
        "algorithm",
        "epsilon",
        "feedback",
        "rounds",
        "assignments",
        "noise",
    ),
    *("delta", "participation", "population", "seed", "workers", "runtime", "protocol"),
    algorithm=option("How it learns; --help-all has the names.", more=_algorithms, metavar="NAME"),
)


@command(
    "fedboard simulate --data ml-1m/ --epsilon 5 --workers 2",
    "fedboard simulate examples/simulate.toml --set settings.clip_norm=0.5",
    "fedboard simulate --data synthetic --algorithm adadpals",
    "fedboard simulate --data people.csv --algorithm representation",
    "fedboard simulate --out runs/residual-eps5 --resume",
    also=_FLAGS,
)
def simulate(
    config_file: Path | None = argument("[CONFIG.toml]"),
    out: Path | None = option("Directory of the run."),
    resume: bool = option("Go on with the run in --out.", more="Of its copies, with one at most."),
    no_baselines: bool = option("Skip the comparison with models without privacy.", rare=True),
    no_report: bool = option("Draw no report.html.", rare=True),
    as_json: bool = JSON,
    live: str | None = LIVE,
    assignments: tuple[str, ...] = (),
    **flags: Any,
) -> None:
    """Simulate federated learning under a privacy budget.

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
    base = base_of(config_file, out, resume=resume)
    config = configure(base, flags, assignments, source=str(config_file or "the flags"))
    place = out or fresh(RUNS / name_of(config))
    if resume and config.privacy.noise == "secure" and config.privacy.population is None:
        click.echo(_COPIES, err=True)
    with watched(config, place, live):
        told = run(config, place, resume=resume, report=not no_report)
    if as_json:
        document(told.record)
    else:
        click.echo("\n\n".join(part for part in (told.text, told.verdict) if part))


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
    from fedboard.simulations.simulate import simulate as run_private

    require_runnable(config)
    try:
        with listening(config) as listener:
            if is_reference(config.algorithm):
                final = run_reference(config, place, resume=resume, problem=problem)
                return reference_summary(config, place, final)
            others: Mapping[str, Mapping[str, float]] = {}
            if beside:
                result, others = _run_beside(config, place, listener, problem=problem, beside=beside)
            else:
                result = run_private(
                    config, place, resume=resume, listener=listener, problem=problem, report=report
                )
        if page is not None:
            from fedboard.client.page.boards import held_board
            from fedboard.client.page.writing import write_page

            write_page(page, held_board(str(place), key=None))
        return private_summary(config, result, others, page=page)
    except KeyboardInterrupt:
        raise InterruptedRunError(_how_to_go_on(place)) from None
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        full = f"{error.filename or place}: {error.strerror}"
        raise StorageError(f"{full}; free some space. The run was {_how_to_go_on(place)}") from error


def _run_beside(
    config: "SimulationConfig",
    place: Path,
    listener: "Listener",
    *,
    problem: "Problem | None",
    beside: Sequence[str],
) -> "tuple[RunResult, Mapping[str, Mapping[str, float]]]":
    """A run, then others on the same processes, then what is drawn of them all."""
    from fedboard.simulations.engine import WorkerPool
    from fedboard.simulations.simulate import require_installed, write_report
    from fedboard.simulations.simulate import simulate as run_private
    from fedboard.simulations.sweeps.cells import run_beside

    require_installed(report=True)
    with WorkerPool(config.run.workers, compiled=config.run.kernels != "numpy") as pool:
        result = run_private(config, place, listener=listener, problem=problem, report=False, pool=pool)
        others = run_beside(beside, config, place, problem=problem, pool=pool, on_progress=listener.progress)
    return replace(result, report=write_report(place)), others


def _how_to_go_on(place: Path) -> str:
    if not (place / "config.json").exists():
        return "interrupted before anything was written"
    return f"interrupted; go on with: fedboard simulate --out {shlex.quote(str(place))} --resume"
