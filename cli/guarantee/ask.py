"""``fedboard ask``: one private question to the users of a data set, booked and answered with its noise."""

from typing import Any

import click

from fedboard.cli.columns import column_mapping
from fedboard.cli.guarantee.ask_options import question_options
from fedboard.cli.research.configuration import parse_range
from fedboard.cli.style.documents import document
from fedboard.cli.style.groups import Commands
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError

_EXAMPLES = """\b
Examples:
  fedboard ask mean --data ml-1m/ --epsilon 0.5 --ledger questions.ledger --budget 4
  fedboard ask quantile --of counts --share 0.9 --data ml-1m/ --epsilon 0.5 --ledger questions.ledger
  fedboard ask mean --data ml-1m/ --epsilon 0.2 --population members.ledger --noise secure
"""


@click.group(cls=Commands)
def ask() -> None:
    """Ask the users of a data set one private question; the answer is booked before it is drawn."""


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
@question_options
def quantile(**given: Any) -> None:
    """Print a private quantile: of the ratings, of the users' numbers of ratings, of their norms.

    The quantile of counts is a bound on contributions, that of norms a clipping norm.
    """
    _answer("quantile", given)


def _answer(kind: Any, given: dict[str, Any]) -> None:
    from fedboard.common.questions.subject import Subject
    from fedboard.simulations.datasets import find_data, load_ratings
    from fedboard.simulations.runs.asking import Payer, Wording, ask_users

    scale = None if given["rating_range"] is None else parse_range(given["rating_range"])
    wording = Wording(
        kind=kind,
        subject=Subject(given["subject"]),
        share=given.get("share", 0.5),
        candidates=_candidates(given.get("candidates")),
        bound=given["bound"],
        highest=given["highest"],
    )
    ratings = load_ratings(
        find_data(given["data"]),
        format=given["data_format"],
        columns=column_mapping(given["columns"]),
        rating_range=scale,
    )
    told = ask_users(
        wording,
        ratings,
        Payer(**{name: given[name] for name in ("ledger", "population", "budget", "delta", "adjacency")}),
        **{name: given[name] for name in ("epsilon", "mechanism", "noise", "seed", "workers")},
    )
    if given["certificate"] is not None:
        given["certificate"].write_text(told.certificate.to_json() + "\n", encoding="utf-8")
    if given["as_json"]:
        document({**told.to_dict(), "certificate": told.certificate.to_dict()})
    else:
        click.echo(_text(told.to_dict()))


def _candidates(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--candidates must be numbers X,X,..., got {text!r}") from None


def _text(record: dict[str, Any]) -> str:
    rows = [(record["question"], f"{record['value']:.6g}")]
    if record["interval"] is not None:
        rows.append(("95 % interval of the noise", "{:.6g} to {:.6g}".format(*record["interval"])))
    if record["rank_error"] is not None:
        rows.append(("rank error, 95 %", f"at most {record['rank_error']:.6g} {record['rank_unit']}"))
    rows += [
        ("noise", record["noise"]),
        ("this question", f"epsilon {record['epsilon']:g} ({record['mechanism']})"),
        (
            "spent with it",
            f"epsilon {record['spent']:.6g} of {record['budget']:g} at delta {record['delta']:g}, "
            f"{record['adjacency']}",
        ),
        (
            "promised",
            f"epsilon {record['claimed']:g}, the whole budget: questions are chosen by the answers before them, so "
            "what was spent when you stop promises nothing",
        ),
    ]
    told = aligned(("", ""), rows)
    if not record["private"]:
        told += "\n\nIts noise can be reproduced from a seed: a simulation, not a private answer."
    return told
