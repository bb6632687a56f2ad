"""``fedboard ask``: one private question, to the users of a data set or to the devices of a fleet."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.columns import column_mapping
from fedboard.cli.guarantee.ask_options import question_options
from fedboard.cli.guarantee.ask_text import tell
from fedboard.cli.research.configuration import parse_range
from fedboard.cli.style.documents import JSON
from fedboard.cli.style.groups import Commands
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.common.questions.wording import Wording

_EXAMPLES = """\b
Examples:
  fedboard ask mean --data ml-1m/ --epsilon 0.5 --ledger questions.ledger --budget 4
  fedboard ask quantile --of counts --share 0.9 --data ml-1m/ --epsilon 0.5 --ledger questions.ledger
  fedboard ask mean --data ml-1m/ --epsilon 0.2 --population members.ledger --noise secure
  fedboard ask mean --fleet fleet.toml --epsilon 0.5
  fedboard ask quantile --of counts --share 0.9 --bisect --fleet fleet.toml --epsilon 0.5
"""


@click.group(cls=Commands)
def ask() -> None:
    """Ask the users of a data set, or of a fleet, one private question; it is booked before the answer is drawn."""


@ask.command(epilog=_EXAMPLES)
@question_options
def mean(**given: Any) -> None:
    """Print a private mean: of the ratings, of the users' numbers of ratings, of their norms.

    Means of ratings weigh no user more than H ratings. Numbers of ratings are private, so H must not be read off
    them.
    """
    _answer("mean", given)


@ask.command(epilog=_EXAMPLES)
@click.option("--share", type=float, default=0.5, show_default=True, help="Which quantile, in (0, 1).")
@click.option(
    "--candidates",
    metavar="X,X,...",
    help="The possible answers, ascending.  [default: evenly spaced ratings; log-spaced counts and norms]",
)
@click.option(
    "--bisect", is_flag=True, help="Ask in rounds that halve the candidates: less noise, Gaussian only."
)
@question_options
def quantile(**given: Any) -> None:
    """Print a private quantile: of the ratings, of the users' numbers of ratings, of their norms.

    The quantile of counts is a bound on contributions, that of norms a clipping norm.
    """
    _answer("quantile", given)


@ask.command(epilog="Example: fedboard ask answers --fleet fleet.toml")
@click.argument("name", required=False, metavar="[QUESTION-N]")
@click.option(
    "--fleet",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The fleet.toml of its server.",
)
@JSON
def answers(name: str | None, fleet: Path, as_json: bool) -> None:
    """List what a fleet was asked, and how each question stands; or tell the answer to one."""
    from fedboard.cli.guarantee.ask_fleet import list_questions, tell_one

    if name is None:
        list_questions(fleet, as_json=as_json)
    else:
        tell_one(fleet, name, as_json=as_json)


def _answer(kind: Any, given: dict[str, Any]) -> None:
    from fedboard.common.questions.collection import Subject
    from fedboard.common.questions.wording import Wording

    if (given["data"] is None) == (given["fleet"] is None):
        raise InputError(
            "who is asked? give --data PATH for a data set, or --fleet FILE for the devices of a fleet"
        )
    wording = Wording(
        kind=kind,
        subject=Subject(given["subject"]),
        share=given.get("share", 0.5),
        candidates=_candidates(given.get("candidates")),
        bound=given["bound"],
        highest=given["highest"],
        bisected=given.get("bisect", False),
    )
    if given["fleet"] is not None:
        from fedboard.cli.guarantee.ask_fleet import ask_fleet

        ask_fleet(wording, given)
    else:
        _ask_data(wording, given)


def _ask_data(wording: "Wording", given: dict[str, Any]) -> None:
    from fedboard.simulations.datasets import Ratings, find_data, load_ratings
    from fedboard.simulations.runs.asking import Asking, Payer, ask_users

    if given["no_wait"]:
        raise InputError("--no-wait is for --fleet; a data set is asked at once")
    scale = None if given["rating_range"] is None else parse_range(given["rating_range"])
    columns = column_mapping(given["columns"])

    def load() -> Ratings:
        place = find_data(given["data"])
        return load_ratings(place, format=given["data_format"], columns=columns, rating_range=scale)

    told = ask_users(
        wording,
        load,
        Payer(**{name: given[name] for name in ("ledger", "population", "budget", "delta", "adjacency")}),
        Asking(**{name: given[name] for name in ("epsilon", "mechanism", "noise", "seed", "workers")}),
    )
    tell(told.to_dict(), told.certificate, place=given["certificate"], as_json=given["as_json"])


def _candidates(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--candidates must be numbers X,X,..., got {text!r}") from None
