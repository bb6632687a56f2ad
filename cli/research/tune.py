"""``fedboard tune``: a search for good settings on made-up or public ratings, or a paid choice on private ones."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.declaring import argument, command, option
from fedboard.cli.documents import JSON, answer
from fedboard.cli.failures import resumable
from fedboard.cli.options import REPETITIONS, WORKERS, listed
from fedboard.cli.research.configuration import assigned, configure, flags
from fedboard.cli.text import Countdown, aligned
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.simulations.config import SimulationConfig
    from fedboard.simulations.tuning.private_choice import Chosen
    from fedboard.simulations.tuning.private_plan import PrivateTuneRecord
    from fedboard.simulations.tuning.search import TuneRecord

_TRIALS, _SEEDS = 40, (0, 1, 2)


def _metrics() -> str:
    from fedboard.simulations.evaluation.metrics.registry import METRICS, main_metrics

    known = ", ".join(name for metric in METRICS for name in metric.names("validation"))
    return f"{known}.  [default: {', or '.join(main_metrics('validation'))}]"


def _whole_numbers(text: str) -> tuple[int, ...]:
    return listed(text, int, "--seeds")


@command(
    "fedboard tune --data synthetic --epsilon 5 --trials 40 --jobs 2",
    'fedboard tune --data ml-1m/ --public "MovieLens 1M, published for research" --algorithm adadpals --epsilon 1',
    "fedboard simulate runs/tune/tuned.toml --data my-ratings.csv --epsilon 5",
    "fedboard tune --private --data my-ratings.csv --rating-range 1,5 --epsilon 5 --candidate rounds=3",
    also=flags(
        *("data", "columns", "rating_range", "algorithm", "epsilon", "feedback", "rounds", "assignments"),
        epsilon=option(
            "Privacy budget of the runs to come.",
            more="[default: 5; with --private it has to be said]",
            type=float,
        ),
    ),
)
def tune(
    config_file: Path | None = argument("[CONFIG.toml]"),
    public: str | None = option(
        "Why these ratings need no protection.",
        more="Required for all but `synthetic`, and kept in every certificate.",
        metavar="SENTENCE",
    ),
    trials: int | None = option("Settings to try.  [default: 40]", type=click.IntRange(2, REPETITIONS.max)),
    seeds: tuple[int, ...] | None = option(
        "Noise seeds; only the best trials use all of them.  [default: 0,1,2]", type=_whole_numbers, rare=True
    ),
    search: Path | None = option("Where to look.", metavar="FILE.toml", rare=True),
    metric: str | None = option("What decides:", more=_metrics, rare=True),
    out: Path | None = option("Directory.  [default: runs/tune]"),
    jobs: int | None = option("Trials at the same time.  [default: 1]", type=WORKERS),
    resume: bool = option("Keep finished trials, run the others."),
    private: bool = option(
        "Choose on private ratings, and pay for it.",
        more="By booked releases; --epsilon is then of everything together, the final board included.",
    ),
    candidates: tuple[str, ...] = option(
        "With --private: settings to try, e.g. rounds=4,user_ridge=3 or shares.counts=0.1; repeatable.",
        "--candidate",
        metavar="KEY=VALUE,...",
        rare=True,
    ),
    as_json: bool = JSON,
    assignments: tuple[str, ...] = (),
    **flags: Any,
) -> None:
    """Search for good settings on public ratings, or pay for the choice.

    Whatever is chosen by looking at ratings tells something about them, and this search books nothing. So it
    simulates on made-up ratings, or ratings that you say are public, and never on the private ones that a board is
    learnt from. What CONFIG.toml, flags or --set fix stays fixed; the rest of the space is searched. DIR/tuned.toml
    can be run.

    With --private it takes the private ratings and pays: a few candidates are fixed in public, each is trained
    with a share of the budget, one noisy release compares them on ratings that each user keeps back, and the final
    board, DIR/final, is trained with what is left. --epsilon is of all of it together, and every certificate claims
    that. The shipped settings are kept unless a candidate is better beyond the noise.
    What that costs: docs/guide/tuning.md.
    """
    from fedboard.simulations.config import base_of
    from fedboard.simulations.runs.directory import RUNS, fresh
    from fedboard.simulations.tuning.private_run import is_private_tuning, read_private_record

    if resume and out is None:
        raise InputError("--resume needs the search: give --out DIR")
    place = out or fresh(RUNS / "tune")
    private = private or (resume and is_private_tuning(place))
    searched: dict[str, Any] = {"public": public, "metric": metric, "seeds": seeds, "jobs": jobs}
    searched |= {"trials": trials, "search": search}
    if private:
        _require_private_only(searched)
    elif candidates:
        raise InputError("--candidate goes with --private")
    fixed = (config_file, public, search, metric, assignments, candidates, *flags.values())
    if resume and any(value not in (None, ()) for value in fixed):
        raise InputError(
            "--resume goes on with the search as it was started: give --out DIR and --jobs alone (of a private "
            "choice --out DIR alone)"
        )
    base = base_of(config_file, None, resume=False)
    if private and not resume:
        _require_epsilon(base, flags, assignments)
    source = str(config_file or "the flags")
    if private:
        if resume:
            fixed_choice = read_private_record(place)
        else:
            fixed_choice = _planned(configure(base, flags, assignments, source=source), candidates)
        summary, text = _chosen(fixed_choice, place, resume=resume)
    else:
        from fedboard.simulations.tuning.tune import plan_tuning, read_tune_record

        if resume:
            record = read_tune_record(place)
        else:
            record = plan_tuning(
                configure(base, flags, assignments, source=source),
                public=public,
                trials=_TRIALS if trials is None else trials,
                seeds=_SEEDS if seeds is None else seeds,
                search_file=search,
                metric=metric,
            )
        summary, text = _searched(record, place, jobs=jobs or 1, resume=resume)
    answer(summary, text, as_json=as_json)


def _searched(record: "TuneRecord", place: Path, *, jobs: int, resume: bool) -> tuple[dict[str, Any], str]:
    """Run a search to its end, telling on stderr how it is getting on; what it found, as a record and in words."""
    from fedboard.simulations.reports.wording import lower_is_better
    from fedboard.simulations.tuning.search import runs_of
    from fedboard.simulations.tuning.trials import TrialRecord
    from fedboard.simulations.tuning.tune import tune as run_tuning

    metric, runs = record.metric, runs_of(record)
    best = min if lower_is_better(metric) else max
    seen: list[float] = []
    click.echo(f"{runs} runs, {jobs} at a time; how long they take is told after the first", err=True)
    left = Countdown(runs)

    def told(trial: TrialRecord, kept: bool) -> None:
        which, rest = f"trial {trial.number} of {record.trials - 1}, seed {trial.seed}", left.told(kept=kept)
        if metric not in trial.metrics:
            click.echo(f"{which}: failed: {trial.error or 'no such metric'}", err=True)
            return
        seen.append(trial.metrics[metric])
        click.echo(f"{which}: {metric} {seen[-1]:.4f}, best {best(seen):.4f}{rest}", err=True)

    with resumable("tune", place, "tune.json"):
        result = run_tuning(record, place, jobs=jobs, resume=resume, on_trial=told)
    chosen = result.best
    summary = {
        "tuned": str(result.tuned),
        "metric": metric,
        "best": {"trial": chosen.number, "mean": chosen.mean(metric), "choice": dict(chosen.choice)},
        "shipped": {"mean": result.shipped.mean(metric)},
        "files": [str(path) for path in result.files],
    }
    rows = [
        (
            "shipped" if trial is result.shipped else f"trial {trial.number}",
            f"{trial.mean(metric):.4f}",
            "" if (spread := trial.deviation(metric)) is None else f"{spread:.4f}",
        )
        for trial in result.finalists
    ]
    table, epsilon = aligned(("settings", metric, "deviation"), rows), record.config.privacy.epsilon
    again = f"fedboard simulate {shlex.quote(str(result.tuned))} --data RATINGS --epsilon {epsilon:g}"
    made = f"Tuned     {result.tuned}\nTrials    {result.files[1]}\nRun with  {again}"
    return summary, f"{table}\n\n{made}"


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


def _planned(config: "SimulationConfig", candidates: tuple[str, ...]) -> "PrivateTuneRecord":
    """What of a private choice is fixed before anything is released.

    Raises:
        InputError: something that cannot be tried.
    """
    from fedboard.simulations.sweeps.cells import shared_problem
    from fedboard.simulations.tuning.private_plan import candidate_of, plan_private_tuning, require_supported
    from fedboard.simulations.tuning.trials import for_trials

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


def _chosen(record: "PrivateTuneRecord", place: Path, *, resume: bool) -> tuple[dict[str, Any], str]:
    """Make a private choice, telling on stderr how it is getting on; what came of it, as a record and in words."""
    import msgspec

    from fedboard.cli.research.summary import private_summary
    from fedboard.simulations.runs.progress import listening
    from fedboard.simulations.tuning.private_choice import FILE
    from fedboard.simulations.tuning.private_run import start_tuning, tune_privately

    def tell(news: str) -> None:
        click.echo(news, err=True)

    with resumable("tune", place, "tune.json"):
        if not resume:
            start_tuning(record, place)
        with listening(record.config) as listener:
            result = tune_privately(record, place, listener=listener, on_news=tell)
    chosen, certificate = result.chosen, result.final.certificate
    said = private_summary(record.config, result.final, {})  # epsilon is that of the whole
    summary = {
        **said.record,
        "chosen": msgspec.to_builtins(chosen),
        "ledger": str(result.ledger),
        "releases": len(certificate.releases),
    }
    simulated = "" if certificate.private else " --simulation"
    made = (
        f"Ledger    {result.ledger}\n"
        f"Chosen    {place / FILE}\n"
        f"Check by  fedboard certificate verify {shlex.quote(str(result.final.path))}{simulated}"
    )
    return summary, "\n\n".join(filter(None, (_choice_text(chosen), said.text, said.verdict, made)))


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
    table = aligned(("candidate", "loss", "settings"), rows)
    costs = [(cost.part, f"{cost.share:.4f}", f"{cost.epsilon:.4f}") for cost in chosen.costs]
    costs.append(("together", "1.0000", f"{chosen.epsilon:.4f}"))
    spent = aligned(("part", "share of mu^2", "epsilon by itself"), costs)
    rule = (
        f"Loss: against the shipped settings, below 0 is better; noise deviation {chosen.stddev:.2f}; chosen below "
        f"{-chosen.beyond * chosen.stddev:.2f}. What was chosen is marked *."
    )
    sentence = chosen.sentence
    return f"{sentence[:1].upper()}{sentence[1:]}.\n\n{table}\n{rule}\n\n{spent}"


def _require_epsilon(base: Mapping[str, Any], flags: Mapping[str, Any], assignments: tuple[str, ...]) -> None:
    stated = isinstance(base.get("privacy"), Mapping) and "epsilon" in base["privacy"]
    stated = stated or flags.get("epsilon") is not None
    if not stated and not any(text.partition("=")[0].strip() == "privacy.epsilon" for text in assignments):
        raise InputError(
            "--private spends a budget that belongs to the users: say which with --epsilon (of trials, comparison "
            "and final board together)"
        )
