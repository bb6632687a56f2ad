"""Run the experiment behind a figure or table of one of the papers again: ``python research/run.py``."""

import math
import sys
import time
import tomllib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import msgspec

if __name__ == "__main__":  # `research` is found beside the installed package
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from fedboard.cli.declaring import argument, command, option
from fedboard.cli.documents import JSON, begin, document
from fedboard.cli.failures import guarded
from fedboard.cli.options import REPETITIONS, WORKERS, listed
from fedboard.cli.research.audit import stepping
from fedboard.cli.research.configuration import configure, flags
from fedboard.cli.text import aligned
from fedboard.common.checks import did_you_mean
from fedboard.common.errors import InputError
from research.shared.experiment import Experiment

if TYPE_CHECKING:
    from fedboard.simulations.sections import DataConfig
    from research.shared.experiment import Outcome

PAPERS = {
    "krichene": "Krichene et al. 2023, Multi-Task Differential Privacy Under Distribution Skew",
    "liu": "Liu, Wang, Smola 2015, Fast Differentially Private Matrix Factorization",
    "epasto": "Epasto et al. 2020, Smoothly Bounding User Contributions in Differential Privacy",
    "jain": "Jain et al. 2021, Differentially Private Model Personalization",
    "population": "How many people a private recommender needs; of no paper, on made-up people",
}
"""Who wrote what, by the name on the command line; the last is ours."""


@cache
def _tables() -> dict[str, list[dict[str, object]]]:
    return tomllib.loads(Path(__file__).with_name("experiments.toml").read_text(encoding="utf-8"))


def experiments_of(paper: str) -> tuple[Experiment, ...]:
    """The experiments of one paper; their code is not loaded.

    Raises:
        InputError: there is no such paper; the sentence lists those there are.
    """
    if paper not in PAPERS:
        meant = did_you_mean(paper, PAPERS)
        raise InputError(f"there is no paper {paper!r} here; there are {', '.join(PAPERS)}{meant}")
    return tuple(msgspec.convert({"paper": paper, **table}, Experiment) for table in _tables()[paper])


def experiment_named(paper: str, figure: str) -> Experiment:
    """One experiment by its figure.

    Raises:
        InputError: no such paper or figure; the sentence lists those there are.
    """
    known = {each.figure: each for each in experiments_of(paper)}
    if figure not in known:
        raise InputError(f"{paper} has no figure {figure!r} here; there are {', '.join(known)}")
    return known[figure]


_FOLDER = click.Path(path_type=Path, file_okay=False)
_PARTS = "parts"
"""Folder of what is finished, of an experiment that goes on where it was interrupted."""
_TOLD_PER_PHASE = 4
"""Lines per phase where nobody watches."""


@command(
    "python research/run.py list                        what there is",
    "python research/run.py jain                        the figures of one paper",
    "python research/run.py jain 2 --out runs/jain-2    one of them",
    "python research/run.py krichene 3 --small          in seconds, on a few made-up people",
    "python research/run.py krichene 1 --data ml-10m/ --seeds 5 --workers 2 --out runs/krichene-1",
    "python research/run.py krichene 7 --data ml-10m/ --data ml-20m/",
    "python research/run.py krichene 1 --recipe paper --data skewed:ml-10m",
    "python research/run.py population curve --most-users 1e6 --workers 2 --out runs/curve",
    "python research/run.py krichene 2 --data plays.csv --columns user=listener --rating-range 1,5 --epsilon 1,8",
    name="python research/run.py",
    also=flags("data_format", "columns", "rating_range", "titles"),
)
def run(
    paper: str | None = argument(),
    figure: str | None = argument(),
    data: tuple[str, ...] = option(
        "Ratings, as for simulate, or files of the paper's own kind; several times where the list says so.  "
        "[default: the nearest set there is, as the list says]",
        metavar="PATH|NAME",
    ),
    epsilon: str | None = option(
        "Privacy budgets to compare, comma-separated.  [default: those of the figure]", metavar="LIST"
    ),
    recipe: str | None = option(
        "Whose settings, for figures of krichene: tuned, which are ours, or paper, which are published.  "
        "[default: tuned]",
        metavar="NAME",
    ),
    most_users: float | None = option(
        "The largest number of users, for population curve.  [default: 1e5]", metavar="N"
    ),
    seeds: int | None = option("Repetitions.  [default: 3; 1 with --small]", type=REPETITIONS),
    small: bool = option("In seconds, on little data: whether it runs, not what it finds."),
    workers: int = option("Processes or threads.", type=WORKERS, default=1),
    out: Path | None = option(
        "New directory for the result.  [default: runs/reproduce-PAPER-FIGURE]",
        type=_FOLDER,
    ),
    resume: bool = option("Go on with what was interrupted in --out, where the list says in parts."),
    as_json: bool = JSON,
    **table: Any,
) -> None:
    """Run the experiment behind a figure or table of a paper.

    Writes the figure (.svg and .png), numbers.json, and README.md with the settings and a sentence that holds the
    numbers beside the paper's. Without FIGURE it lists what there is, with rough times and which data each
    takes.
    """
    from research.run import experiment_named
    from research.shared.ratings import require_fitting

    if paper in (None, "list") or figure is None:
        if as_json:
            raise InputError("--json is for the numbers of an experiment; name one of the list")
        click.echo(_listing(None if paper == "list" else paper))
        return
    experiment = experiment_named(paper, figure)
    given = _data({**table, "data": data})
    epsilons = _epsilons(epsilon)
    require_fitting(
        experiment,
        data=given,
        epsilons=epsilons,
        recipe=recipe,
        most_users=most_users,
        resume=resume,
    )
    place = _interrupted(out) if resume else _new_place(out, experiment)
    place.mkdir(parents=True, exist_ok=True)
    asked: dict[str, Any] = {
        "data": given[0] if given else None,
        "more_data": given[1:],
        "epsilons": epsilons,
        "recipe": recipe or "tuned",
        "most_users": most_users,
        "seeds": seeds or 3,
        "workers": workers,
    }
    if small:
        asked |= experiment.made_small(given, epsilons) | {"seeds": seeds or 1}
    record, outcome = _run(experiment, place, asked)
    document(record) if as_json else click.echo(_told(outcome, place))


def _listing(paper: str | None) -> str:
    """Figures, rough minutes and titles, paper by paper; of one paper also which data each takes."""
    from research.run import PAPERS, experiments_of

    parts = []
    for name in PAPERS if paper is None else (paper,):
        rows = [[each.figure, f"{each.minutes:g}", each.title] for each in experiments_of(name)]
        table = aligned(["figure", "minutes", "what"], rows)
        parts.append(f"{name}: {PAPERS[name]}\n\n{table}")
    if paper is None:
        return "\n\n".join(
            [*parts, "Which data they take: python research/run.py PAPER. Run one: ... PAPER FIGURE"]
        )
    data = aligned(["", ""], [[each.figure, _data_of(each)] for each in experiments_of(paper)])
    return "\n\n".join([*parts, f"data:\n{data}", f"Run one: python research/run.py {paper} FIGURE"])


def _data_of(experiment: "Experiment") -> str:
    return f"{experiment.data} In parts: --resume." if experiment.in_parts else experiment.data


def _new_place(out: Path | None, experiment: "Experiment") -> Path:
    if out is None:
        wanted = Path("runs", f"reproduce-{experiment.paper}-{experiment.figure}")
        others = (wanted.with_name(f"{wanted.name}-{number}") for number in count(2))
        return next(place for place in chain((wanted,), others) if not place.exists())
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(
            f"{out} is there already and not empty; name a new directory, nothing is overwritten"
        )
    return out


def _interrupted(out: Path | None) -> Path:
    if out is None or not (out / _PARTS).is_dir():
        raise InputError(f"--resume needs the --out of what was interrupted, got {out or 'none'}")
    return out


def _data(table: Mapping[str, Any]) -> "tuple[DataConfig, ...]":
    """The ratings that somebody names, and how they are to be read: all of them alike."""
    given = [f"--{name.removeprefix('data_').replace('_', '-')}" for name, value in table.items() if value]
    if not table["data"] and given:
        raise InputError(f"{' and '.join(given)}: of which ratings? Name them with --data")
    from research.shared.shapes import PREFIX, settings_of

    meant = {
        each: {"data": {"synthetic": settings_of(each)}} for each in table["data"] if each.startswith(PREFIX)
    }
    return tuple(
        configure(
            meant.get(each, {}),
            {**table, "data": "synthetic" if each in meant else each},
            (),
        ).data
        for each in table["data"]
    )


def _epsilons(text: str | None) -> tuple[float, ...]:
    found = () if text is None else listed(text, float, "--epsilon")
    if not all(0 < epsilon < math.inf for epsilon in found):
        raise InputError(f"--epsilon must be numbers > 0, got {text!r}")
    return found


def _run(experiment: "Experiment", place: Path, asked: Mapping[str, Any]) -> "tuple[dict[str, Any], Outcome]":
    from research.shared.drawing import house_style
    from research.shared.experiment import Setting
    from research.shared.writing import record_of, write_outcome

    started = time.monotonic()
    with stepping() as on_step, _scratch(experiment, place) as scratch, house_style():
        setting = Setting(
            **asked,
            scratch=Path(scratch),
            on_progress=on_step if sys.stderr.isatty() else _thinned(on_step),
        )
        outcome = experiment.outcome(setting)
        record = record_of(experiment, outcome, seconds=time.monotonic() - started)
        write_outcome(record, outcome, place)
    return record, outcome


def _scratch(experiment: "Experiment", place: Path) -> AbstractContextManager[str]:
    """A folder that is gone afterwards, or the one in which parts are kept."""
    if not experiment.in_parts:
        return TemporaryDirectory(prefix="scratch-", dir=place)
    (place / _PARTS).mkdir(exist_ok=True)
    return nullcontext(str(place / _PARTS))


def _thinned(on_step: Callable[[str, int, int], None]) -> Callable[[str, int, int], None]:
    """Passes on a few steps of each phase."""
    last: tuple[str, int] | None = None

    def say(phase: str, done: int, total: int) -> None:
        nonlocal last
        now = (phase, _TOLD_PER_PHASE * done // max(total, 1))
        if now != last:
            last = now
            on_step(phase, done, total)

    return say


def _told(outcome: "Outcome", place: Path) -> str:
    from research.shared.writing import tables

    parts = []
    for name, head, lines in tables(outcome.numbers):
        table = aligned(head, lines)
        parts.append(f"{name}\n{table}" if name else table)
    return "\n\n".join([*parts, outcome.comparison, f"Written to {place}/ (README.md, numbers.json)"])


if __name__ == "__main__":
    begin(sys.argv[1:])
    sys.exit(guarded(partial(run.main, standalone_mode=False), debug=False))
