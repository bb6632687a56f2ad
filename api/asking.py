"""One private question to the users of a data set."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedboard.common.certificate import Certificate
from fedboard.common.errors import InputError
from fedboard.common.privacy.shown import table_html
from fedboard.common.queries.collection import Subject
from fedboard.common.queries.wording import Wording
from fedboard.ratings import InMemory, load_ratings
from fedboard.simulations.runs.asking import Asking, Payer, Told, ask_users


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reply:
    """The answer to a question, with its noise and its cost. Public, and shown as text and HTML."""

    told: Told
    """All of it."""

    @property
    def value(self) -> float:
        """The answer."""
        return self.told.answer.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """Holds the answer without noise with probability 0.95; None where only a rank error is known."""
        return self.told.answer.interval

    @property
    def rank_error(self) -> float | None:
        """Of quantiles: with probability 0.95 the answer misses the quantile by no more than this weight."""
        return self.told.answer.rank_error

    @property
    def certificate(self) -> Certificate:
        """What is promised: the whole budget, since questions are chosen by the answers before them."""
        return self.told.certificate

    def __float__(self) -> float:
        """The answer."""
        return self.value

    def __repr__(self) -> str:
        """One line."""
        return f"<Reply {self._answer()}; {self._cost()}; {self.certificate.verdict}>"

    def _repr_html_(self) -> str:
        """A table, for a notebook."""
        rows = [
            ("answer", self._answer()),
            ("noise", self.told.answer.noise),
            ("cost", self._cost()),
            ("promise", self.certificate.promise),
        ]
        return table_html("Reply", self.certificate.verdict, rows)

    def _answer(self) -> str:
        told = f"{self.told.question}: {self.value:.6g}"
        if self.interval is not None:
            told += " ({:.6g} to {:.6g})".format(*self.interval)
        if self.rank_error is not None:
            told += f" (rank error at most {self.rank_error:.6g} {self.told.rank_unit})"
        return told

    def _cost(self) -> str:
        budget = self.told.budget
        return f"epsilon {self.told.epsilon:g}, {self.told.spent:.6g} of {budget.epsilon:g} spent"


def ask(
    question: Literal["mean", "quantile"],
    data: str | Path | InMemory,
    *,
    epsilon: float,
    of: Literal["ratings", "counts", "norms"] = "ratings",
    ledger: str | Path | None = None,
    population: str | Path | None = None,
    budget: float | None = None,
    delta: float | None = None,
    adjacency: str | None = None,
    rating_range: tuple[float, float] | None = None,
    share: float = 0.5,
    candidates: tuple[float, ...] | None = None,
    bisect: bool = False,
    bound: float | None = None,
    highest: float | None = None,
    mechanism: Literal["auto", "pure", "gaussian"] = "auto",
    noise: Literal["secure", "seeded"] = "secure",
    seed: int | None = None,
    workers: int = 1,
) -> Reply:
    """Ask the users of a data set one private question; the answer is booked before its noise is drawn.

    Args:
        question: ``mean`` or ``quantile``.
        data: as for ``load_ratings``. Private.
        epsilon: what this question costs by itself; > 0.
        of: each rating; each user's number of ratings; or the L2 norm of her ratings less the scale's centre.
        ledger: pays; made where it is new, with ``budget``.
        population: account of these users, which pays too.
        budget: epsilon of a new ledger: of all questions together, and what its certificate claims.
        delta: of a new ledger; None: 1e-5.
        adjacency: of a new ledger, ``add-remove`` (None) or ``replace``.
        rating_range: lowest and highest rating; public knowledge, for data that do not bring it.
        share: of a quantile, which; in (0, 1).
        candidates: of a quantile, the possible answers, ascending; public. None: spaced over the scale.
        bisect: of a quantile, whether it is asked in rounds that halve the candidates; Gaussian noise only.
        bound: ratings beyond which a user weighs no more; public. None: 20.
        highest: largest number that counts; public. None: 1 000, of norms 100.
        mechanism: ``auto`` is pure (delta 0) while the account holds pure releases only, else Gaussian.
        noise: ``seeded`` is a simulation, which protects nobody.
        seed: of seeded noise.
        workers: processes; they never change the answer.

    Raises:
        InputError: anything that cannot be used as it is, naming the remedy.
        BudgetExceededError: the budget does not cover it; no noise was drawn.
    """
    _one_of("question", question, ("mean", "quantile"))
    _one_of("of", of, tuple(Subject))
    wording = Wording(
        kind=question,
        subject=Subject(of),
        share=share,
        candidates=None if candidates is None else tuple(candidates),
        bound=bound,
        highest=highest,
        bisected=bisect,
    )
    payer = Payer(
        ledger=None if ledger is None else Path(ledger),
        population=None if population is None else Path(population),
        budget=budget,
        delta=delta,
        adjacency=adjacency,
    )
    asking = Asking(epsilon=epsilon, mechanism=mechanism, noise=noise, seed=seed, workers=workers)
    return Reply(
        told=ask_users(wording, lambda: load_ratings(data, rating_range=rating_range), payer, asking)
    )


def _one_of(name: str, given: str, offered: tuple[str, ...]) -> None:
    if given not in offered:
        raise InputError(f"{name} must be {', '.join(offered[:-1])} or {offered[-1]}, got {given!r}")
