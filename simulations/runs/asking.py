"""One private question to the users of a data set: who pays, and what comes back."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedboard.common.board import Catalogue
from fedboard.common.certificate import Certificate, certify
from fedboard.common.errors import InputError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.adjacency import Adjacency, parse_adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.protocols.trusted.protocol import Trusted
from fedboard.common.questions.answer import Answer, Mechanism
from fedboard.common.questions.stated_task import StatedQuestion
from fedboard.common.questions.task import Question, QuestionTask
from fedboard.common.questions.wording import Wording
from fedboard.server.publication import sentences
from fedboard.server.question import ASSUMPTIONS, Asked, ask_in_rounds, fitting_mechanism
from fedboard.server.question import ask as ask_fleet
from fedboard.simulations.datasets import Ratings
from fedboard.simulations.engine import Engine, WorkerPool

_DELTA = 1e-5
"""Of a new ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payer:
    """Who pays: a ledger of questions, made where it is new, the account of a population, or both."""

    ledger: Path | None = None
    population: Path | None = None
    budget: float | None = None
    """Epsilon of a new ledger: of all questions together."""
    delta: float | None = None
    """Of a new ledger; None: 1e-5."""
    adjacency: str | None = None
    """Of a new ledger; None: ``add-remove``."""

    @contextmanager
    def opened(self) -> "Iterator[tuple[Ledger, Population | None]]":
        """Ledger and account, closed at the end.

        Raises:
            InputError: nobody pays; a new ledger without a budget; terms for one that has its own.
        """
        with ExitStack() as stack:
            path, population = self.ledger, None
            if self.population is not None:
                population = stack.enter_context(Population.open(self.population))
                path = path or self.population.with_name(self.population.name + ".questions")
            if path is None:
                raise InputError("who pays? give --ledger FILE, --population FILE or both")
            yield stack.enter_context(self._ledger(path, population)), population

    def _ledger(self, path: Path, population: Population | None) -> Ledger:
        terms = [name for name in ("budget", "delta", "adjacency") if getattr(self, name) is not None]
        if path.exists():
            if terms:
                raise InputError(
                    f"{path}: it is there already and has its own budget; leave out --{terms[0]}"
                )
            return Ledger.open(path, population=population)
        if population is not None and not terms:
            budget = population.budget
        elif self.budget is None:
            raise InputError(f"{path}: no such ledger; --budget EPSILON starts one")
        else:
            adjacency = parse_adjacency(self.adjacency or Adjacency.ADD_REMOVE)
            budget = Budget(epsilon=self.budget, delta=self.delta or _DELTA, adjacency=adjacency)
        return Ledger.create(path, budget, run="questions", population=population)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A question that was answered, and what it cost. Public."""

    question: str
    answer: Answer
    rank_unit: str | None
    mechanism: Mechanism
    release: str
    """Its name in the ledger."""
    epsilon: float
    """Of this question by itself."""
    spent: float
    """Epsilon of all questions so far."""
    budget: Budget
    certificate: Certificate

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, without the certificate."""
        return {
            "question": self.question,
            **asdict(self.answer),
            "rank_unit": self.rank_unit,
            "mechanism": str(self.mechanism),
            "release": self.release,
            "epsilon": self.epsilon,
            "claimed": self.certificate.claim.epsilon,
            "spent": self.spent,
            "budget": self.budget.epsilon,
            "delta": self.budget.delta,
            "adjacency": str(self.budget.adjacency),
            "private": self.certificate.private,
        }


def ask_users(
    wording: Wording,
    ratings: Ratings,
    payer: Payer,
    *,
    epsilon: float,
    mechanism: str = "auto",
    noise: str = "secure",
    seed: int | None = None,
    workers: int = 1,
) -> Told:
    """Put one question to every user of a data set, book it, and answer with noise.

    Args:
        wording: public.
        ratings: private but for what ``Ratings`` marks as public.
        payer: who pays; what is asked beyond the budget is refused before any noise is drawn.
        epsilon: what the question costs by itself; finite, > 0.
        mechanism: ``auto`` (pure while the account holds pure releases only), ``pure`` or ``gaussian``.
        noise: ``secure``, or ``seeded`` for a simulation, which protects nobody.
        seed: of seeded noise; None with ``secure``.
        workers: processes; they never change the answer.

    Raises:
        InputError: anything that cannot be used as it is, naming the remedy.
        BudgetExceededError: the budget does not cover it; nothing was drawn.
    """
    if noise not in ("secure", "seeded") or (noise == "seeded") != (seed is not None):
        raise InputError("--seed N goes with --noise seeded, a simulation; secure noise has no seed")
    if mechanism not in ("auto", *Mechanism):  # before a ledger is made
        raise InputError(f"mechanism must be auto, {' or '.join(Mechanism)}, got {mechanism!r}")
    if wording.bisected and mechanism == Mechanism.PURE:
        raise InputError("a quantile that is bisected has Gaussian noise; leave out --mechanism, or --bisect")
    question = wording.question(ratings.rating_range)
    with payer.opened() as (ledger, population):
        drawn = SecureNoise() if seed is None else SeededNoise(seed)
        name = f"question-{len(ledger.events()) + 1}"
        if wording.bisected:
            asked = _asked_in_rounds(wording, ratings, ledger, drawn, name, epsilon=epsilon, workers=workers)
        else:
            task = QuestionTask(question=question, release_name=name)
            with _engine(task, ratings, workers) as engine:
                asked = ask_fleet(
                    task,
                    runtime=engine,
                    catalogue=_catalogue(ratings),
                    ledger=ledger,
                    noise=drawn,
                    epsilon=epsilon,
                    mechanism=fitting_mechanism(ledger, population)
                    if mechanism == "auto"
                    else Mechanism(mechanism),
                )
        return _told(asked, wording, question, ratings, ledger, epsilon)


def _asked_in_rounds(
    wording: Wording,
    ratings: Ratings,
    ledger: Ledger,
    noise: NoiseSource,
    name: str,
    *,
    epsilon: float,
    workers: int,
) -> Asked:
    budget = ledger.budget
    task = StatedQuestion(
        wording.statement(
            ratings.rating_range,
            release=name,
            epsilon=epsilon,
            delta=budget.delta,
            adjacency=budget.adjacency,
        )
    )
    with _engine(task, ratings, workers) as engine:
        return ask_in_rounds(task, runtime=engine, catalogue=_catalogue(ratings), ledger=ledger, noise=noise)


@contextmanager
def _engine(task: QuestionTask | StatedQuestion, ratings: Ratings, workers: int) -> Iterator[Engine]:
    with (
        WorkerPool(workers) as pool,
        Engine(task, ratings.cohort(), protocol=Trusted(), pool=pool) as engine,
    ):
        yield engine


def _catalogue(ratings: Ratings) -> Catalogue:
    return Catalogue(item_ids=tuple(str(number) for number in range(ratings.n_items)))


def _told(
    asked: Asked, wording: Wording, question: Question, ratings: Ratings, ledger: Ledger, epsilon: float
) -> Told:
    low, high = ratings.rating_range
    certificate = certify(
        ledger.events(),
        commitment=ledger.commitment,
        trust=sentences(Trusted().trust),
        assumptions=ASSUMPTIONS,
        dataset=f"{ratings.name}: ratings from {low:g} to {high:g}",
        ledger_head=ledger.head,
        population=ledger.population_total(),
    )
    return Told(
        question=question.title,
        answer=asked.answer,
        rank_unit=None if asked.answer.rank_error is None else wording.rank_unit,
        mechanism=asked.mechanism,
        release=asked.release,
        epsilon=epsilon,
        spent=ledger.spent().epsilon,
        budget=ledger.budget,
        certificate=certificate,
    )
