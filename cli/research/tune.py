"""``fedboard tune``: choose settings on data that need no protection, or pay for the choice."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.counts import REPETITIONS, WORKERS
from fedboard.cli.documents import JSON, document
from fedboard.cli.failures import resumable
from fedboard.cli.names import NamedOption, private_algorithms
from fedboard.cli.research.configuration import assigned, configure, data_options, listed, model_options
from fedboard.cli.text import Countdown, aligned
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.simulations.tuning.private_choice import Chosen
    from fedboard.simulations.tuning.private_plan import PrivateTuneRecord
    from fedboard.simulations.tuning.private_run import PrivateTuneResult
    from fedboard.simulations.tuning.search import TuneRecord
    from fedboard.simulations.tuning.tune import TuneResult

_TRIALS, _SEEDS = 40, "0,1,2"
_EXAMPLES = """\b
Examples:
  fedboard tune --data synthetic --epsilon 5 --trials 40 --jobs 2
  fedboard tune --data ml-1m/ --public "MovieLens 1M, published for research" --algorithm adadpals --epsilon 1
  fedboard simulate runs/tune/tuned.toml --data my-ratings.csv --epsilon 5
  fedboard tune --private --data my-ratings.csv --rating-range 1,5 --epsilon 5 --candidate rounds=3
"""


def _metrics() -> str:
    from fedboard.simulations.evaluation.metrics.registry import METRICS, main_metrics

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
@click.option("--seeds", hidden=True, help="Of the noise; all of them for the best trials.  [default: 0,1,2]")
@click.option(
    "--search",
    "search_file",
    metavar="FILE.toml",
    hidden=True,
    type=click.Path(path_type=Path),
    help="Where to look.",
)
@click.option("--metric", cls=NamedOption, hidden=True, help="What decides:", names=_metrics)
@click.option("--out", type=click.Path(path_type=Path), help="Directory of the search.  [default: runs/tune]")
@click.option("--jobs", type=WORKERS, help="Trials at the same time.  [default: 1]")
@click.option("--resume", is_flag=True, help="Keep finished trials, go on with the others.")
@click.option(
    "--private",
    is_flag=True,
    help="Choose on the private ratings themselves, by booked releases; --epsilon is then of everything together, "
    "the final board included.",
)
@click.option(
    "--candidate",
    "candidates",
    multiple=True,
    metavar="KEY=VALUE,...",
    help="With --private: settings to try, e.g. rounds=4,user_ridge=3 or shares.counts=0.1; repeatable.",
)
@JSON
def tune(
    config_file: Path | None,
    public: str | None,
    trials: int | None,
    seeds: str | None,
    search_file: Path | None,
    metric: str | None,
    out: Path | None,
    jobs: int | None,
    resume: bool,
    private: bool,
    candidates: tuple[str, ...],
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
    that. The shipped settings are kept unless a candidate is better beyond the noise.
    What that costs: docs/guide/tuning.md.
    """
    from fedboard.simulations.runs.directory import RUNS, fresh
    from fedboard.simulations.tuning.private_run import is_private_tuning, read_private_record

    if resume and out is None:
        raise InputError("--resume needs the search: give --out DIR")
    place = out or fresh(RUNS / "tune")
    searched: dict[str, Any] = {"public": public, "metric": metric, "seeds": seeds, "jobs": jobs}
    searched |= {"trials": trials, "search": search_file}
    if private or (resume and is_private_tuning(place)):
        _require_private_only(searched)
        if resume:
            _require_nothing_else(config_file, assignments, candidates, flags)
            fixed = read_private_record(place)
        else:
            fixed = _planned(config_file, flags, assignments, candidates=candidates)
        summary, text = _told(_run_private(fixed, place, resume=resume))
        document(summary) if as_json else click.echo(text)
        return
    if candidates:
        raise InputError("--candidate goes with --private")
    if resume:
        from fedboard.simulations.tuning.tune import read_tune_record

        record = read_tune_record(place)
        _require_nothing_else(config_file, public, search_file, metric, assignments, flags)
    else:
        from fedboard.simulations.tuning.tune import plan_tuning

        record = plan_tuning(
            configure(
                {} if config_file is None else _read(config_file),
                flags,
                assignments,
                source=str(config_file or "the flags"),
            ),
            public=public,
            trials=_TRIALS if trials is None else trials,
            seeds=listed(_SEEDS if seeds is None else seeds, int, "--seeds"),
            search_file=search_file,
            metric=metric,
        )
    result = _run(record, place, jobs=jobs or 1, resume=resume)
    document(_summary(result)) if as_json else click.echo(_text(result))


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
    from fedboard.simulations.reports.wording import lower_is_better
    from fedboard.simulations.tuning.search import runs_of
    from fedboard.simulations.tuning.trials import TrialRecord
    from fedboard.simulations.tuning.tune import tune as run_tuning

    best = min if lower_is_better(record.metric) else max
    seen: list[float] = []
    runs = runs_of(record)
    click.echo(f"{runs} runs, {jobs} at a time; how long they take is told after the first", err=True)
    left = Countdown(runs)

    def told(trial: TrialRecord, kept: bool) -> None:
        place, rest = f"trial {trial.number} of {record.trials - 1}, seed {trial.seed}", left.told(kept=kept)
        if record.metric not in trial.metrics:
            click.echo(f"{place}: failed: {trial.error or 'no such metric'}", err=True)
            return
        seen.append(trial.metrics[record.metric])
        click.echo(f"{place}: {record.metric} {seen[-1]:.4f}, best {best(seen):.4f}{rest}", err=True)

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


def _require_private_only(given: Mapping[str, Any]) -> None:
    """Refuse options that would look at ratings without booking it.

    Args:
        given: option -> value, None where it was not given.

    Raises:
        InputError: names the option.
    """
    reasons = {
        "public": "private ratings are not public; leave out --private to search on public ones",
        "metric": "trials are compared by squared error, in one booked release",
        "seeds": "each trial is paid for, so it is run once; the key seed is of the noise",
        "jobs": "trials follow each other; the key run.workers sets the processes",
        "trials": "each --candidate is one",
        "search": "each look at a score would have to be paid; name settings with --candidate",
    }
    for name, reason in reasons.items():
        if given.get(name) is not None:
            raise InputError(f"--{name} does not go with --private: {reason}")


def _planned(
    config_file: Path | None,
    flags: Mapping[str, Any],
    assignments: Sequence[str],
    *,
    candidates: Sequence[str],
) -> "PrivateTuneRecord":
    """What of a private choice is fixed before anything is released.

    Raises:
        InputError: no epsilon, or something that cannot be tried.
    """
    from fedboard.simulations.sweeps.cells import shared_problem
    from fedboard.simulations.tuning.private_plan import candidate_of, plan_private_tuning, require_supported
    from fedboard.simulations.tuning.trials import for_trials

    base = {} if config_file is None else _read(config_file)
    _require_epsilon(base, flags, assignments)
    config = configure(base, flags, assignments, source=str(config_file or "the flags"))
    require_supported(config)
    if not candidates:
        raise InputError(
            "--private compares settings that you name: give at least one --candidate KEY=VALUE,..."
        )
    tried = [
        candidate_of(dict(assigned(part, option="--candidate") for part in text.split(",")), "--candidate")
        for text in candidates
    ]
    return plan_private_tuning(config, shared_problem(for_trials(config)), candidates=tried)


def _run_private(record: "PrivateTuneRecord", place: Path, *, resume: bool) -> "PrivateTuneResult":
    """Run to the end, telling on stderr how it is getting on."""
    from fedboard.simulations.runs.progress import listening
    from fedboard.simulations.tuning.private_run import start_tuning, tune_privately

    with resumable("tune", place, "tune.json"):
        if not resume:
            start_tuning(record, place)
        with listening(record.config) as listener:
            return tune_privately(
                record, place, listener=listener, on_news=lambda news: click.echo(news, err=True)
            )


def _told(result: "PrivateTuneResult") -> tuple[dict[str, Any], str]:
    """Record and text of a finished private choice."""
    import msgspec

    from fedboard.cli.research.summary import private_summary
    from fedboard.simulations.tuning.private_choice import FILE

    chosen, certificate = result.chosen, result.final.certificate
    said = private_summary(result.record.config, result.final)  # epsilon is that of the whole
    record = dict(said.record)
    plain: dict[str, Any] = msgspec.to_builtins(chosen)
    record |= {"chosen": plain, "ledger": str(result.ledger), "releases": len(certificate.releases)}
    place = result.ledger.parent
    lines = (
        f"Ledger    {result.ledger}",
        f"Chosen    {place / FILE}",
        f"Check by  fedboard certificate verify {shlex.quote(str(result.final.path))} --simulation"
        if not certificate.private
        else f"Check by  fedboard certificate verify {shlex.quote(str(result.final.path))}",
    )
    return record, "\n\n".join(
        filter(None, (_choice_text(chosen), said.text, said.verdict, "\n".join(lines)))
    )


def _choice_text(chosen: "Chosen") -> str:
    from fedboard.simulations.tuning.private_plan import told_of

    known = ["lost"] * (len(chosen.candidates) - 1)
    if chosen.losses is not None:
        known = [f"{loss:+.2f}" for loss in chosen.losses]
    losses = ["-", *known]
    rows = [
        (f"{place} *" if place == chosen.number else f"{place}", losses[place], told_of(candidate))
        for place, candidate in enumerate(chosen.candidates)
    ]
    table = aligned(("candidate", "loss", "settings"), rows, right=(1,))
    costs = [(cost.part, f"{cost.share:.4f}", f"{cost.epsilon:.4f}") for cost in chosen.costs]
    costs.append(("together", "1.0000", f"{chosen.epsilon:.4f}"))
    spent = aligned(("part", "share of mu^2", "epsilon by itself"), costs, right=(1, 2))
    rule = (
        f"Loss: against the shipped settings, below 0 is better; noise deviation {chosen.stddev:.2f}; chosen below "
        f"{-chosen.beyond * chosen.stddev:.2f}. What was chosen is marked *."
    )
    sentence = chosen.sentence
    return f"{sentence[:1].upper()}{sentence[1:]}.\n\n{table}\n{rule}\n\n{spent}"


def _require_epsilon(base: Mapping[str, Any], flags: Mapping[str, Any], assignments: Sequence[str]) -> None:
    stated = isinstance(base.get("privacy"), Mapping) and "epsilon" in base["privacy"]
    stated = stated or flags.get("epsilon") is not None
    if not stated and not any(text.partition("=")[0].strip() == "privacy.epsilon" for text in assignments):
        raise InputError(
            "--private spends a budget that belongs to the users: say which with --epsilon (of trials, comparison "
            "and final board together)"
        )
