"""One private run on examples: from a budget to boards with certificates."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedboard import Budget, Ledger
from fedboard.common.board import Board, Catalogue
from fedboard.common.errors import InputError
from fedboard.common.per_user.participation import FullParticipation, Participation
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocols.trusted.protocol import Trusted
from fedboard.common.tasks.on_examples.examples import Examples
from fedboard.common.tasks.on_examples.record import ExampleTask
from fedboard.server.publication import BoardStore
from fedboard.server.round import run_round
from fedboard.server.run_ledger import plan_of
from research.personalisation.runtime import ExampleRuntime

ASSUMPTION = (
    "The data are examples, features with a label: what is said of ratings holds for them, the catalogue is the "
    "list of the features, and every user has her place in the public numbering of users."
)


_EVERYBODY = FullParticipation()


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner:
    """Everything of a run but its data. Public."""

    task: ExampleTask
    budget: Budget
    noise: NoiseSource
    participation: Participation = _EVERYBODY
    workers: int = 1
    on_round: Callable[[Board], None] | None = None
    """Told about each board that is published."""

    def learn(self, examples: Examples, catalogue: Catalogue, place: Path, *, dataset: str) -> Board:
        """Run all rounds; each is planned, booked, noised and published with its certificate.

        Args:
            examples: private.
            catalogue: names of the features. Public.
            place: new folder for ledger and boards.
            dataset: public description of the data.

        Returns:
            The last board.

        Raises:
            BudgetExceededError: the plan does not fit the budget; nothing was released.
            InputError: the folder is in use, or the features are not those of the catalogue.
        """
        if examples.dimension != catalogue.n_items:
            raise InputError(f"{examples.dimension} features do not fit {catalogue.n_items} names")
        boards = place / "boards"
        if place.exists() and any(place.iterdir()):
            raise InputError(f"{place} is in use; name a new folder")
        boards.mkdir(parents=True)
        store, protocol = BoardStore(boards), Trusted()
        runtime = ExampleRuntime(task=self.task, examples=examples, protocol=protocol, workers=self.workers)
        plan = plan_of(self.task, self.participation)
        with Ledger.create(place / "ledger.sqlite", self.budget, plan=plan) as ledger:

            def publish(board: Board) -> Board:
                stated = self.participation.assumption
                assumptions = [ASSUMPTION] if stated is None else [ASSUMPTION, stated]
                published = store.publish(
                    board, ledger, trust=protocol.trust, dataset=dataset, assumptions=assumptions
                )
                if self.on_round is not None:
                    self.on_round(published)
                return published

            board = publish(self.task.first_board(catalogue))
            while self.task.requests(board):
                result = run_round(
                    self.task,
                    board,
                    runtime=runtime,
                    ledger=ledger,
                    noise=self.noise,
                    participation=self.participation,
                )
                board = publish(result.board)
            ledger.finish()
        return board
