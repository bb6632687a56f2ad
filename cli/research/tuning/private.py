"""``fedboard tune --private``: settings chosen on the users' own ratings, paid from the budget."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from fedboard.cli.counts import WORKERS
from fedboard.cli.failures import resumable
from fedboard.cli.research.configuration import assigned, configure
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.simulations.tuning.private.choice import Chosen
    from fedboard.simulations.tuning.private.plan import PrivateTuneRecord
    from fedboard.simulations.tuning.private.run import PrivateTuneResult

Command = TypeVar("Command", bound=Callable[..., object])

OWN = ("candidate", "population", "seed", "workers")
"""Parameters that only a private choice has."""
_SUMMED = ("population", "seed", "workers")
"""Those that are keys of the configuration."""


def private_options(command: Command) -> Command:
    """Options of a private choice."""
    for option in reversed(
        (
            click.option(
                "--private",
                is_flag=True,
                help="Choose on the private ratings themselves, by booked releases; --epsilon is then of "
                "everything together, the final board included.",
            ),
            click.option(
                "--candidate",
                multiple=True,
                metavar="KEY=VALUE,...",
                help="With --private: settings to try, e.g. rounds=4,user_ridge=3 or shares.counts=0.1; "
                "repeatable.",
            ),
            click.option("--population", metavar="FILE", help="With --private: account of these users."),
            click.option("--seed", type=int, help="With --private: first factors and seeded noise."),
            click.option("--workers", type=WORKERS, help="With --private: worker processes."),
        )
    ):
        command = option(command)
    return command


def require_not_private(given: Mapping[str, Any]) -> None:
    """Refuse options of a private choice where none is asked for.

    Raises:
        InputError: names the option.
    """
    for name in OWN:
        if given.get(name) not in (None, ()):
            raise InputError(f"--{name.replace('_', '-')} goes with --private")


def require_private_only(given: Mapping[str, Any]) -> None:
    """Refuse options that would look at ratings without booking it.

    Args:
        given: option -> value, None where it was not given.

    Raises:
        InputError: names the option.
    """
    reasons = {
        "public": "private ratings are not public; leave out --private to search on public ones",
        "metric": "trials are compared by squared error, in one booked release",
        "seeds": "each trial is paid for, so it is run once; --seed is of the noise",
        "jobs": "trials follow each other; --workers sets the processes",
        "trials": "each --candidate is one",
        "search": "each look at a score would have to be paid; name settings with --candidate",
    }
    for name, reason in reasons.items():
        if given.get(name) is not None:
            raise InputError(f"--{name} does not go with --private: {reason}")


def planned(
    base: Mapping[str, Any],
    flags: Mapping[str, Any],
    assignments: Sequence[str],
    *,
    own: Mapping[str, Any],
    source: str,
) -> "PrivateTuneRecord":
    """What is fixed before anything is released.

    Args:
        base: a configuration as read from a file, or nothing.
        flags: of data and model.
        assignments: of ``--set``.
        own: of ``private_options``.
        source: what messages call the configuration.

    Raises:
        InputError: no epsilon, or something that cannot be tried.
    """
    from fedboard.simulations.sweeps.cells import shared_problem
    from fedboard.simulations.tuning.private.plan import candidate_of, plan_private_tuning, require_supported
    from fedboard.simulations.tuning.trials import for_trials

    _require_epsilon(base, flags, assignments)
    given = {**flags, **{name: own[name] for name in _SUMMED}}
    config = configure(base, given, assignments, source=source)
    require_supported(config)
    if not own["candidate"]:
        raise InputError(
            "--private compares settings that you name: give at least one --candidate KEY=VALUE,..."
        )
    candidates = [
        candidate_of(dict(assigned(part, option="--candidate") for part in text.split(",")), "--candidate")
        for text in own["candidate"]
    ]
    return plan_private_tuning(config, shared_problem(for_trials(config)), candidates=candidates)


def was_started(place: Path) -> bool:
    """Whether a private choice was started there."""
    from fedboard.simulations.tuning.private.run import is_private_tuning

    return is_private_tuning(place)


def record_of(place: Path) -> "PrivateTuneRecord":
    """What was started there.

    Raises:
        InputError: nothing was.
    """
    from fedboard.simulations.tuning.private.run import read_private_record

    return read_private_record(place)


def run(record: "PrivateTuneRecord", place: Path, *, resume: bool) -> "PrivateTuneResult":
    """Run to the end, telling on stderr how it is getting on."""
    from fedboard.simulations.runs.progress import listening
    from fedboard.simulations.tuning.private.run import start_tuning, tune_privately

    with resumable("tune", place, "tune.json"):
        if not resume:
            start_tuning(record, place)
        with listening(record.config) as listener:
            return tune_privately(
                record, place, listener=listener, on_news=lambda news: click.echo(news, err=True)
            )


def told(result: "PrivateTuneResult") -> tuple[dict[str, Any], str]:
    """Record and text of a finished private choice."""
    import msgspec

    from fedboard.cli.research.summary import private_summary
    from fedboard.simulations.tuning.private.choice import FILE

    chosen, certificate = result.chosen, result.final.certificate
    said = private_summary(result.record.config, result.final)  # epsilon is that of the whole
    record = dict(said.record)
    plain: dict[str, Any] = msgspec.to_builtins(chosen)
    record |= {"chosen": plain, "ledger": str(result.ledger), "releases": len(certificate.releases)}
    place = result.ledger.parent
    lines = (
        f"Ledger    {result.ledger}",
        f"Chosen    {place / FILE}, with {len(chosen.constants)} settings that stayed public constants",
        f"Check by  fedboard certificate verify {shlex.quote(str(result.final.path))} --simulation"
        if not certificate.private
        else f"Check by  fedboard certificate verify {shlex.quote(str(result.final.path))}",
    )
    return record, "\n\n".join(filter(None, (_text(chosen), said.text, said.verdict, "\n".join(lines))))


def _text(chosen: "Chosen") -> str:
    from fedboard.simulations.tuning.private.plan import told_of

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
