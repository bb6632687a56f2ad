"""One private run on examples, from a budget to boards with certificates, and its runtime."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedboard import Board, Budget, Ledger
from fedboard.common.algorithms.supervised.examples import Examples, ExampleTask
from fedboard.common.arrays import IndexArray
from fedboard.common.board import Catalogue
from fedboard.common.contribution import Request
from fedboard.common.contribution_bounding.participation import (
    Attendance,
    FullParticipation,
    Participation,
    require_unsampled,
)
from fedboard.common.errors import InputError
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import DenseSums
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.task import ReleasedSums
from fedboard.server.publication import BoardStore
from fedboard.server.round import run_round
from fedboard.server.runtime import Gathered, NoisedSums
from fedboard.server.training import plan_of

_NUMBERS_PER_BLOCK = 1 << 21


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleRuntime:
    """All users of a data set as clients of one task, in this process, under the trusted protocol.

    The sums are of whole numbers, so threads never change them. (A user's own numbers may round differently, by
    grid units, beside users with more examples; blocks do not depend on the threads.) A block's rows hold about
    two million numbers, 16 MB, and a few such arrays exist per thread.
    """

    task: ExampleTask
    examples: Examples
    """Private."""
    protocol: Trusted
    workers: int = 1
    """Threads."""
    on_progress: Callable[[int, int], None] | None = None
    """Told about blocks done, and blocks in all."""

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """The contribution of every user who takes part, checked before it is handed over, and summed exactly.

        Raises:
            PrivacyError: the requests state who takes part and there is no attendance that draws it.
        """
        users = self._present(requests, attendance)
        width = sum(request.release.width for request in requests)
        size = max(1, _NUMBERS_PER_BLOCK // width)
        blocks = [users[start : start + size] for start in range(0, users.size, size)]

        def summed(block: IndexArray) -> ExactSums:
            contribution = self.task.contribute(self.examples.rows(block), board, tuple(requests))
            message = self.protocol.encode(contribution, requests)
            return DenseSums.total_of([self.protocol.combine([message], requests)], requests)

        total = DenseSums.total((), requests)
        with ThreadPoolExecutor(self.workers) as pool:
            for done, part in enumerate(pool.map(summed, blocks), start=1):
                total = DenseSums.total_of([total, part], requests)
                if self.on_progress is not None:
                    self.on_progress(done, len(blocks))
        return Gathered(sums=total)

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums of releases that are paid for."""
        return NoisedSums(sums=sums, requests=requests, booked=booked)

    def _present(self, requests: Sequence[Request], attendance: Attendance | None) -> IndexArray:
        """Row numbers of those who take part."""
        everybody = np.arange(self.examples.n_users, dtype=np.int32)
        if attendance is None:
            require_unsampled(requests)
            return everybody
        drawn = attendance.draw(self.examples.n_users)
        return everybody if drawn is None else everybody[drawn]


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
