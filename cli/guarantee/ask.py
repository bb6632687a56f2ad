"""``fedboard ask``: one private question to the users of a data set, booked and answered with its noise."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedboard.cli.guarantee.ask_options import question_options
from fedboard.cli.research.configuration import parse_range
from fedboard.cli.text import aligned
from fedboard.common.errors import InputError

if TYPE_CHECKING:
    from fedboard.common.certificate import Certificate
    from fedboard.common.privacy.ledger.ledger import Ledger
    from fedboard.common.privacy.ledger.population import Population
    from fedboard.common.questions.task import Question
    from fedboard.server.question import Asked
    from fedboard.simulations.datasets import Ratings

_FEW_CANDIDATES, _MANY_CANDIDATES = 65, 201
_EXAMPLES = """\b
Examples:
  fedboard ask mean --data ml-1m/ --epsilon 0.5 --ledger questions.ledger --budget 4
  fedboard ask quantile --of counts --share 0.9 --data ml-1m/ --epsilon 0.5 --ledger questions.ledger
  fedboard ask mean --data ml-1m/ --epsilon 0.2 --population members.ledger --noise secure
"""


@click.group()
def ask() -> None:
    """Ask the users of a data set one private question; the answer is booked before it is drawn."""


@ask.command(epilog=_EXAMPLES)
@question_options
def mean(**given: Any) -> None:
    """Print a private mean: of the ratings, of the users' numbers of ratings, of their norms.

    Means of ratings weigh no user more than H ratings. Numbers of ratings are private, so H must not be read off
    them.
    """
    _answer(given, _mean_question)


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
    _answer(given, _quantile_question)


def _mean_question(given: dict[str, Any], low: float, high: float) -> "Question":
    from fedboard.common.questions.mean import MeanQuestion
    from fedboard.common.questions.subject import Subject

    subject = Subject(given["subject"])
    on_scale = subject is Subject.RATINGS
    return MeanQuestion(
        subject=subject,
        low=low if on_scale else 0.0,
        high=high if on_scale else _highest(given),
        bound=_bound(given),
        centre=0.5 * (low + high),
    )


def _quantile_question(given: dict[str, Any], low: float, high: float) -> "Question":
    from fedboard.common.questions.bounding.quantile import Target
    from fedboard.common.questions.quantile import QuantileQuestion
    from fedboard.common.questions.subject import Subject

    subject = Subject(given["subject"])
    return QuantileQuestion(
        subject=subject,
        target=Target(given["share"]),
        candidates=_candidates(given, low, high),
        bound=_bound(given),
        centre=0.5 * (low + high),
    )


def _candidates(given: dict[str, Any], low: float, high: float) -> tuple[float, ...]:
    import numpy as np

    if given["candidates"] is not None:
        try:
            return tuple(float(part) for part in given["candidates"].split(","))
        except ValueError:
            raise InputError(f"--candidates must be numbers X,X,..., got {given['candidates']!r}") from None
    if given["subject"] == "ratings":
        return tuple(np.linspace(low, high, _MANY_CANDIDATES).tolist())
    spaced = np.geomspace(1.0 if given["subject"] == "counts" else 0.1, _highest(given), _FEW_CANDIDATES)
    return tuple(np.unique(np.rint(spaced) if given["subject"] == "counts" else spaced).tolist())


def _highest(given: dict[str, Any]) -> float:
    default = 1000.0 if given["subject"] == "counts" else 100.0
    return default if given["highest"] is None else float(given["highest"])


def _bound(given: dict[str, Any]) -> float:
    default = 20.0 if given["subject"] == "ratings" else 1.0
    return default if given["bound"] is None else float(given["bound"])


def _answer(given: dict[str, Any], question_of: Callable[[dict[str, Any], float, float], "Question"]) -> None:
    from fedboard.simulations.datasets import find_data, load_ratings

    scale = None if given["rating_range"] is None else parse_range(given["rating_range"])
    ratings = load_ratings(find_data(given["data"]), format=given["data_format"], rating_range=scale)
    question = question_of(given, *ratings.rating_range)
    with ExitStack() as stack:
        ledger, population = _account(given, stack)
        asked = _asked(given, question, ratings, ledger, population)
        certificate = _certificate(ledger, ratings, given)
        record = {
            "question": question.title,
            **asdict(asked.answer),
            "rank_unit": None if asked.answer.rank_error is None else _rank_unit(given),
            "mechanism": str(asked.mechanism),
            "release": asked.release,
            "epsilon": given["epsilon"],
            "claimed": certificate.claim.epsilon,
            "spent": ledger.spent().epsilon,
            "budget": ledger.budget.epsilon,
            "delta": ledger.budget.delta,
            "adjacency": str(ledger.budget.adjacency),
            "private": certificate.private,
        }
    if given["certificate"] is not None:
        given["certificate"].write_text(certificate.to_json() + "\n", encoding="utf-8")
    if given["as_json"]:
        click.echo(json.dumps({**record, "certificate": certificate.to_dict()}))
    else:
        click.echo(_text(record))


def _account(given: dict[str, Any], stack: ExitStack) -> "tuple[Ledger, Population | None]":
    """The ledger that pays, and the account of the population that pays too; made where it is new."""
    from fedboard.common.privacy.accounting.budget import Budget
    from fedboard.common.privacy.adjacency import Adjacency
    from fedboard.common.privacy.ledger.ledger import Ledger
    from fedboard.common.privacy.ledger.population import Population

    path: Path | None = given["ledger"]
    population = None
    if given["population"] is not None:
        population = stack.enter_context(Population.open(given["population"]))
        path = path or given["population"].with_name(given["population"].name + ".questions")
    if path is None:
        raise InputError("who pays? give --ledger FILE, --population FILE or both")
    terms = [name for name in ("budget", "delta", "adjacency") if given[name] is not None]
    if path.exists():
        if terms:
            raise InputError(f"{path}: it is there already and has its own budget; leave out --{terms[0]}")
        return stack.enter_context(Ledger.open(path, population=population)), population
    if population is not None and not terms:
        budget = population.budget
    elif given["budget"] is None:
        raise InputError(f"{path}: no such ledger; --budget EPSILON starts one")
    else:
        adjacency = Adjacency(given["adjacency"] or Adjacency.ADD_REMOVE)
        budget = Budget(epsilon=given["budget"], delta=given["delta"] or 1e-5, adjacency=adjacency)
    return stack.enter_context(
        Ledger.create(path, budget, run="questions", population=population)
    ), population


def _asked(
    given: dict[str, Any],
    question: "Question",
    ratings: "Ratings",
    ledger: "Ledger",
    population: "Population | None",
) -> "Asked":
    from fedboard.common.board import Catalogue
    from fedboard.common.privacy.releases.noise import SecureNoise, SeededNoise
    from fedboard.common.protocols.trusted.protocol import Trusted
    from fedboard.common.questions.answer import Mechanism
    from fedboard.common.questions.task import QuestionTask
    from fedboard.server.question import ask as ask_fleet
    from fedboard.server.question import fitting_mechanism
    from fedboard.simulations.engine import Engine, WorkerPool

    if (given["noise"] == "seeded") != (given["seed"] is not None):
        raise InputError("--seed N goes with --noise seeded, a simulation; secure noise has no seed")
    auto = given["mechanism"] == "auto"
    task = QuestionTask(question=question, release_name=f"question-{len(ledger.events()) + 1}")
    with (
        WorkerPool(given["workers"]) as pool,
        Engine(task, ratings.cohort(), protocol=Trusted(), pool=pool) as engine,
    ):
        return ask_fleet(
            task,
            runtime=engine,
            catalogue=Catalogue(item_ids=tuple(str(number) for number in range(ratings.n_items))),
            ledger=ledger,
            noise=SecureNoise() if given["seed"] is None else SeededNoise(given["seed"]),
            epsilon=given["epsilon"],
            mechanism=fitting_mechanism(ledger, population) if auto else Mechanism(given["mechanism"]),
        )


def _certificate(ledger: "Ledger", ratings: "Ratings", given: dict[str, Any]) -> "Certificate":
    from fedboard.common.certificate import certify
    from fedboard.common.protocols.trusted.protocol import Trusted
    from fedboard.server.publication import sentences
    from fedboard.server.question import ASSUMPTIONS

    low, high = ratings.rating_range
    return certify(
        ledger.events(),
        commitment=ledger.commitment,
        trust=sentences(Trusted().trust),
        assumptions=ASSUMPTIONS,
        dataset=f"{ratings.name}: ratings from {low:g} to {high:g}",
        ledger_head=ledger.head,
        population=ledger.population_total(),
    )


def _rank_unit(given: dict[str, Any]) -> str:
    """What a rank error counts: a user has many ratings, but one number of them and one norm."""
    if given["subject"] != "ratings":
        return "users"
    return f"ratings, no user's counting for more than {_bound(given):g}"


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


__all__ = ["ask"]
