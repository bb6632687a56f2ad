"""One private question to the users of a data set: who pays, and what comes back."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedboard.common.board import Catalogue
from fedboard.common.certificate import Certificate, certify
from fedboard.common.errors import BudgetExceededError, InputError, OutOfRangeError
from fedboard.common.privacy.accounting.budget import Budget
from fedboard.common.privacy.adjacency import Adjacency, parse_adjacency
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise, SeededNoise
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.queries.collection import Answer, Mechanism
from fedboard.common.queries.statement import StatedQuestion
from fedboard.common.queries.wording import QuestionTask, Wording
from fedboard.server.question import ASSUMPTIONS, ask_in_rounds, fitting_mechanism
from fedboard.server.question import ask as ask_fleet
from fedboard.simulations.data import Ratings
from fedboard.simulations.engine import Engine, WorkerPool

_DELTA = 1e-5
"""Of a new ledger."""
_ANY_SCALE = (0.0, 1.0)
"""Stands for the scale of ratings that are not read yet: what is out of range there is so on every other."""


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

    def check(self) -> None:
        """Say what does not fit before anything is read, made or booked.

        Raises:
            InputError: nobody pays; a new ledger without a budget; terms for one that has its own.
            PrivacyError: a number of the new ledger's budget is out of its range.
        """
        path, terms = self._place, self._terms
        if path.exists() and terms:
            raise InputError(f"{path}: it is there already and has its own budget; leave out --{terms[0]}")
        if self.population is not None:
            Population.open(self.population, read_only=True).close()
        if not path.exists() and (terms or self.population is None):
            self._budget()

    @contextmanager
    def opened(self) -> "Iterator[tuple[Ledger, Population | None]]":
        """Ledger and account, closed at the end.

        Raises:
            InputError: see ``check``.
            PrivacyError: see ``check``.
        """
        self.check()
        with ExitStack() as stack:
            population = None
            if self.population is not None:
                population = stack.enter_context(Population.open(self.population))
            made = not self._place.exists()
            ledger = stack.enter_context(self._ledger(population))
            try:
                yield ledger, population
            except BudgetExceededError:
                if made and not ledger.events():  # nothing was booked, so nothing is forgotten with it
                    self._place.unlink()
                raise

    @property
    def _place(self) -> Path:
        if self.ledger is not None:
            return self.ledger
        if self.population is None:
            raise InputError("who pays? give --ledger FILE, --population FILE or both")
        return self.population.with_name(self.population.name + ".questions")

    @property
    def _terms(self) -> list[str]:
        return [name for name in ("budget", "delta", "adjacency") if getattr(self, name) is not None]

    def _ledger(self, population: Population | None) -> Ledger:
        if self._place.exists():
            return Ledger.open(self._place, population=population)
        budget = population.budget if population is not None and not self._terms else self._budget()
        return Ledger.create(self._place, budget, run="questions", population=population)

    def _budget(self) -> Budget:
        if self.budget is None:
            raise InputError(f"{self._place}: no such ledger; --budget EPSILON starts one")
        return Budget(
            epsilon=self.budget,
            delta=_DELTA if self.delta is None else self.delta,
            adjacency=parse_adjacency(self.adjacency or Adjacency.ADD_REMOVE),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """At which cost a question is asked, and with which noise. Public."""

    epsilon: float
    """What the question costs by itself; finite, > 0."""
    mechanism: str = "auto"
    """``auto`` (pure while the account holds pure releases only), ``pure`` or ``gaussian``."""
    noise: str = "secure"
    """``secure``, or ``seeded`` for a simulation, which protects nobody."""
    seed: int | None = None
    """Of seeded noise; None with ``secure``."""
    workers: int = 1
    """Processes; they never change the answer."""

    def check(self, wording: Wording) -> None:
        """Say what cannot be asked before anything is read, made or booked.

        Raises:
            InputError: anything of this, or of the question on whatever scale.
            PrivacyError: no finite epsilon > 0.
        """
        if not 0 < self.epsilon < math.inf:
            raise OutOfRangeError(f"epsilon of a question must be a finite number > 0, got {self.epsilon:g}")
        if self.noise not in ("secure", "seeded") or (self.noise == "seeded") != (self.seed is not None):
            raise InputError("--seed N goes with --noise seeded, a simulation; secure noise has no seed")
        if self.mechanism not in ("auto", *Mechanism):
            raise InputError(f"mechanism must be auto, {' or '.join(Mechanism)}, got {self.mechanism!r}")
        if wording.bisected and self.mechanism == Mechanism.PURE:
            raise InputError(
                "a quantile that is bisected has Gaussian noise; leave out --mechanism, or --bisect"
            )
        wording.question(_ANY_SCALE)

    def source(self) -> NoiseSource:
        """Where the draws come from."""
        return SecureNoise() if self.seed is None else SeededNoise(self.seed)


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


def ask_users(wording: Wording, load: Callable[[], Ratings], payer: Payer, asking: Asking) -> Told:
    """Put one question to every user of a data set, book it, and answer with noise.

    Args:
        wording: public.
        load: reads the ratings, once all else is known to fit; private but for what ``Ratings`` marks as public.
        payer: who pays; what is asked beyond the budget is refused before any noise is drawn.
        asking: at which cost, with which noise. Public.

    Raises:
        InputError: anything that cannot be used as it is, naming the remedy.
        BudgetExceededError: the budget does not cover it; nothing was drawn.
    """
    asking.check(wording)
    payer.check()
    ratings = load()
    question = wording.question(ratings.rating_range)
    catalogue = Catalogue(item_ids=tuple(str(number) for number in range(ratings.n_items)))
    with payer.opened() as (ledger, population), WorkerPool(asking.workers) as pool:
        name, noise, budget = f"question-{len(ledger.events()) + 1}", asking.source(), ledger.budget
        if wording.bisected:
            stated = wording.statement(
                ratings.rating_range,
                release=name,
                epsilon=asking.epsilon,
                delta=budget.delta,
                adjacency=budget.adjacency,
            )
            in_rounds = StatedQuestion(stated)
            with Engine(in_rounds, ratings.cohort(), protocol=Trusted(), pool=pool) as engine:
                asked = ask_in_rounds(
                    in_rounds, runtime=engine, catalogue=catalogue, ledger=ledger, noise=noise
                )
        else:
            chosen = (
                fitting_mechanism(ledger, population)
                if asking.mechanism == "auto"
                else Mechanism(asking.mechanism)
            )
            task = QuestionTask(question=question, release_name=name)
            with Engine(task, ratings.cohort(), protocol=Trusted(), pool=pool) as engine:
                asked = ask_fleet(
                    task,
                    runtime=engine,
                    catalogue=catalogue,
                    ledger=ledger,
                    noise=noise,
                    epsilon=asking.epsilon,
                    mechanism=chosen,
                )
        low, high = ratings.rating_range
        certificate = certify(
            ledger.events(),
            commitment=ledger.commitment,
            trust=Trusted().trust.sentences,
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
            epsilon=asking.epsilon,
            spent=ledger.spent().epsilon,
            budget=budget,
            certificate=certificate,
        )
