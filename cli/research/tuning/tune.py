"""``fedboard tune``: choose settings on data that need no protection, or pay for the choice."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.counts import REPETITIONS, WORKERS
from fedboard.cli.failures import resumable
from fedboard.cli.names import NamedOption, private_algorithms
from fedboard.cli.research.configuration import configure, data_options, listed, model_options
from fedboard.cli.research.tuning import private as private_tuning
from fedboard.cli.style.documents import JSON, document
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.simulations.config import SimulationConfig
    from fedboard.simulations.tuning.tune import TuneRecord, TuneResult

_TRIALS, _SEEDS = 40, "0,1,2"
_EXAMPLES = """\b
Examples:
  fedboard tune --data synthetic --epsilon 5 --trials 40 --jobs 2
  fedboard tune --data ml-1m/ --public "MovieLens 1M, published for research" --algorithm adadpals --epsilon 1
  fedboard simulate runs/tune/tuned.toml --data my-ratings.csv --epsilon 5
  fedboard tune --private --data my-ratings.csv --rating-range 1,5 --epsilon 5 --candidate rounds=3
"""


def _metrics() -> str:
    from fedboard.simulations.judging.metrics.registry import METRICS, main_metrics

    known = ", ".join(name for metric in METRICS for name in metric.names("validation"))
    return f"{known}.  [default: {', or '.join(main_metrics('validation'))}]"


@click.command(epilog=_EXAMPLES)
@click.argument("config_file", metavar="[CONFIG.toml]", required=False, type=click.Path(path_type=Path))
@data_options
@click.option(
    "--public",
    metavar="SENTENCE",
    help="Why these ratings need no protection; required for all but `synthetic`, and kept in every certificate.",
)
@click.option("--algorithm", cls=NamedOption, metavar="NAME", names=private_algorithms)
@click.option(
    "--epsilon",
    type=float,
    help="Privacy budget of the runs to come.  [default: 5; with --private it has to be said]",
)
@model_options
@click.option(
    "--trials",
    type=click.IntRange(2, REPETITIONS.max),
    help="Settings to try, the shipped ones included.  [default: 40]",
)
@click.option("--seeds", help="Of the noise; all of them for the best trials.  [default: 0,1,2]")
@click.option(
    "--search", "search_file", metavar="FILE.toml", type=click.Path(path_type=Path), help="Where to look."
)
@click.option("--search-seed", type=int, default=0, show_default=True, help="Which settings are tried.")
@click.option("--metric", cls=NamedOption, help="What decides:", names=_metrics)
@click.option("--out", type=click.Path(path_type=Path), help="Directory of the search.  [default: runs/tune]")
@click.option("--jobs", type=WORKERS, help="Trials at the same time.  [default: 1]")
@click.option("--resume", is_flag=True, help="Keep finished trials, go on with the others.")
@private_tuning.private_options
@JSON
def tune(
    config_file: Path | None,
    public: str | None,
    trials: int | None,
    seeds: str | None,
    search_file: Path | None,
    search_seed: int,
    metric: str | None,
    out: Path | None,
    jobs: int | None,
    resume: bool,
    private: bool,
    as_json: bool,
    assignments: tuple[str, ...],
    **flags: Any,
) -> None:
    """Search for good settings by simulations on made-up or public ratings, or pay for the choice.

    Whatever is chosen by looking at ratings tells something about them, and this search books nothing. So it takes
    made-up ratings, or ratings that you say are public, and never the private ones that a board is learnt from.
    What CONFIG.toml, flags or --set fix stays fixed; the rest of the space is searched. DIR/tuned.toml can be run.

    With --private it takes the private ratings and pays: a few candidates are fixed in public, each is trained
    with a share of the budget, one noisy release compares them on ratings that each user keeps back, and the final
    board, DIR/final, is trained with what is left. --epsilon is of all of it together, and every certificate claims
    that. The shipped settings are kept unless a candidate is better beyond the noise. Trials see less budget than
    the final run, so settings whose best value depends on the budget may be ranked wrongly; and where the shipped
    settings fit, what the trials cost is lost (docs/guide/tuning.md has numbers).
    """
    from fedboard.simulations.runs.folders import RUNS, fresh

    if resume and out is None:
        raise InputError("--resume needs the search: give --out DIR")
    place = out or fresh(RUNS / "tune")
    own = {name: flags.pop(name) for name in private_tuning.OWN}
    searched: dict[str, Any] = {"public": public, "metric": metric, "seeds": seeds, "jobs": jobs}
    searched |= {"trials": trials, "search": search_file}
    if private or (resume and private_tuning.was_started(place)):
        private_tuning.require_private_only(searched)
        if resume:
            _require_nothing_else(config_file, assignments, {**flags, **own})
        kept = private_tuning.record_of(place) if resume else None
        fixed = kept or private_tuning.planned(
            {} if config_file is None else _read(config_file),
            flags,
            assignments,
            own=own,
            source=str(config_file or "the flags"),
        )
        summary, text = private_tuning.told(private_tuning.run(fixed, place, resume=resume))
        document(summary) if as_json else click.echo(text)
        return
    private_tuning.require_not_private(own)
    if resume:
        from fedboard.simulations.tuning.tune import read_tune_record

        record = read_tune_record(place)
        _require_nothing_else(config_file, public, search_file, metric, assignments, flags)
    else:
        from fedboard.simulations.tuning.tune import plan_tuning

        record = plan_tuning(
            _configured(config_file, flags, assignments),
            public=public,
            trials=_TRIALS if trials is None else trials,
            seeds=listed(_SEEDS if seeds is None else seeds, int, "--seeds"),
            search_file=search_file,
            metric=metric,
            search_seed=search_seed,
        )
    result = _run(record, place, jobs=jobs or 1, resume=resume)
    document(_summary(result)) if as_json else click.echo(_text(result))


def _configured(
    config_file: Path | None, flags: Mapping[str, Any], assignments: tuple[str, ...]
) -> "SimulationConfig":
    base = {} if config_file is None else _read(config_file)
    return configure(base, flags, assignments, source=str(config_file or "the flags"))


def _read(config_file: Path) -> dict[str, Any]:
    from fedboard.simulations.config import read_config

    return read_config(config_file)


def _require_nothing_else(*given: Any) -> None:
    """A search goes on as it was started: what its record says cannot be changed."""
    *single, flags = given
    if any(value not in (None, ()) for value in (*single, *flags.values())):
        raise InputError(
            "--resume goes on with the search as it was started: give --out DIR and --jobs alone (of a private "
            "choice --out DIR alone)"
        )


def _run(record: "TuneRecord", place: Path, *, jobs: int, resume: bool) -> "TuneResult":
    from fedboard.simulations.drawing.wording import lower_is_better
    from fedboard.simulations.tuning.trials import TrialRecord
    from fedboard.simulations.tuning.tune import tune as run_tuning

    best = min if lower_is_better(record.metric) else max
    seen: list[float] = []

    def told(trial: TrialRecord) -> None:
        place = f"trial {trial.number} of {record.trials - 1}, seed {trial.seed}"
        if record.metric not in trial.metrics:
            click.echo(f"{place}: failed: {trial.error or 'no such metric'}", err=True)
            return
        seen.append(trial.metrics[record.metric])
        click.echo(f"{place}: {record.metric} {seen[-1]:.4f}, best {best(seen):.4f}", err=True)

    with resumable("tune", place, "tune.json"):
        return run_tuning(record, place, jobs=jobs, resume=resume, on_trial=told)


def _summary(result: "TuneResult") -> dict[str, Any]:
    metric = result.record.metric
    return {
        "tuned": str(result.tuned),
        "metric": metric,
        "best": {
            "trial": result.best.number,
            "mean": result.best.mean(metric),
            "choice": dict(result.best.choice),
        },
        "shipped": {"mean": result.shipped.mean(metric)},
        "files": [str(path) for path in result.files],
    }


def _text(result: "TuneResult") -> str:
    metric = result.record.metric
    rows = [
        (
            "shipped" if trial is result.shipped else f"trial {trial.number}",
            f"{trial.mean(metric):.4f}",
            "" if (spread := trial.deviation(metric)) is None else f"{spread:.4f}",
        )
        for trial in result.finalists
    ]
    table = aligned(("settings", metric, "deviation"), rows, right=(1, 2))
    epsilon = result.record.config.privacy.epsilon
    again = f"fedboard simulate {shlex.quote(str(result.tuned))} --data RATINGS --epsilon {epsilon:g}"
    return f"{table}\n\nTuned     {result.tuned}\nTrials    {result.files[1]}\nRun with  {again}"
