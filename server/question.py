"""Asking a fleet one private question: gather, sum, book, draw. The order is the guarantee."""

import math
from dataclasses import dataclass

from fedboard.common.board import Catalogue
from fedboard.common.errors import OutOfRangeError
from fedboard.common.kernels.blas_threads import one_blas_thread_here
from fedboard.common.privacy.accounting.exact import mu_for
from fedboard.common.privacy.events import is_pure
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.ledger.population import Population
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocols.sums.exact import whole_sums
from fedboard.common.queries.collection import Answer, Mechanism
from fedboard.common.queries.statement import StatedQuestion
from fedboard.common.queries.wording import QuestionTask
from fedboard.server.round import book
from fedboard.server.runtime import Runtime

ASSUMPTIONS = (
    "The rating range, the bound on a user's weight, the candidates and which questions are asked are public and "
    "were not chosen by looking at these ratings outside the releases listed here.",
    "Each user's rows are in one client only, and each client answers a release once.",
    "Nothing that depends on the ratings leaves the aggregator but the releases listed here; how long an answer "
    "takes is not protected.",
    "The noise generator's output cannot be told from random words (AES-256 in counter mode); Laplace noise and "
    "choices are drawn from them without rounding any probability.",
)
"""What the certificate of every question takes for granted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question that was answered. Every field is public."""

    answer: Answer
    mechanism: Mechanism
    release: str
    """Its name in the ledger."""


def ask(
    task: QuestionTask,
    *,
    runtime: Runtime,
    catalogue: Catalogue,
    ledger: Ledger,
    noise: NoiseSource,
    epsilon: float,
    mechanism: Mechanism,
) -> Asked:
    """Ask and answer.

    Guarantee: the answer is a function of one release that is durably in the ledger; where the budget does not
    cover it, no noise is drawn and nothing returned.

    Args:
        task: the question; its release must be new to the ledger.
        runtime: where the clients are; it runs this very task.
        catalogue: public; its items count, not their names.
        ledger: pays; its adjacency is the question's.
        noise: where the draws come from.
        epsilon: what the question costs by itself, at the ledger's delta for Gaussian noise.
        mechanism: how the answer leaves.

    Raises:
        BudgetExceededError: the question does not fit in what is left of the budget.
        PrivacyError: no finite epsilon > 0.
    """
    if not 0 < epsilon < math.inf:
        raise OutOfRangeError(f"epsilon of a question must be a finite number > 0, got {epsilon}")
    # Pure releases have epsilon 1 / z, Gaussian ones are (1 / z)-GDP.
    loss = epsilon if mechanism is Mechanism.PURE else mu_for(epsilon, ledger.budget.delta)
    board = task.first_board(catalogue)
    requests = task.requests(board)
    gathered = runtime.gather(board, requests)
    sums = whole_sums(gathered.sums, requests)[task.release_name]
    answer = task.question.answer(
        sums,
        name=task.release_name,
        mechanism=mechanism,
        noise_multiplier=1.0 / loss,
        ledger=ledger,
        noise=noise,
    )
    return Asked(answer=answer, mechanism=mechanism, release=task.release_name)


@one_blas_thread_here()
def ask_in_rounds(
    task: StatedQuestion, *, runtime: Runtime, catalogue: Catalogue, ledger: Ledger, noise: NoiseSource
) -> Asked:
    """Ask and answer in rounds, of which each depends on what the one before released.

    Guarantee: all rounds are durably in the ledger before the first is asked; where the budget does not cover them
    together, nobody is asked and no noise is drawn.

    Args:
        task: the question; its releases must be new to the ledger.
        runtime: where the clients are; it runs this very task.
        catalogue: public; its items count, not their names.
        ledger: pays; its adjacency is the question's.
        noise: where the draws come from.

    Raises:
        BudgetExceededError: the question does not fit in what is left of the budget.
    """
    booked = book([request for requests in task.plan() for request in requests], ledger, noise)
    board = task.first_board(catalogue)
    while requests := task.requests(board):
        gathered = runtime.gather(board, requests)
        asked = {request.name: booked[request.name] for request in requests}
        board = task.update(board, runtime.open(gathered.sums, requests, asked))
    return Asked(answer=task.answer(board), mechanism=Mechanism.GAUSSIAN, release=task.statement.release)


def fitting_mechanism(ledger: Ledger, population: Population | None) -> Mechanism:
    """The mechanism that is cheapest to an account: pure where all in it is pure, else Gaussian. Public facts only.

    Epsilons of pure releases add up; beside Gaussian ones each would count as much as a Gaussian that hides as
    little (``events.event_mu``), which is dear.
    """
    held = ledger.events()
    if population is not None:
        adjacency = population.budget.adjacency
        held = [dict(event) for member in population.members() for event in member.committed(adjacency)]
    return Mechanism.PURE if all(is_pure(event) for event in held) else Mechanism.GAUSSIAN
