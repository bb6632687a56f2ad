"""The questions as runs of the SuperLink: one after another, once the training is over."""

from collections.abc import Callable

from fedboard.common.errors import FedboardError
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.control import Control
from fedboard.server.fleet.processes.training_run import TrainingRun
from fedboard.server.fleet.questions.account import give_up
from fedboard.server.fleet.questions.places import PutQuestion, Standing, questions_of

_MOST_FAILURES = 3
"""Runs of one question that end without a board, before it is given up."""


class QuestionRuns:
    """What was put to the fleet and is not answered yet. All state is in the files: after a crash it goes on."""

    def __init__(self, control: Control, fleet: StateFolder, *, say: Callable[[str], None]) -> None:
        """Make ready.

        Args:
            control: of the SuperLink.
            fleet: where the questions are.
            say: takes sentences for the operator.
        """
        self._control, self._fleet, self._say = control, fleet, say
        self._asked: PutQuestion | None = None
        self._run: TrainingRun | None = None
        self._over = set[int]()

    def begin(self) -> None:
        """After a start of the SuperLink, which knows of no run: the question under way is handed in anew."""
        self._asked = self._run = None

    def watch(self) -> bool:
        """Look how the question under way fares, or take the next; False if the SuperLink starts no more runs."""
        if self._asked is None and not self._next():
            return True
        assert self._asked is not None  # just now
        assert self._run is not None
        starting = self._run.watch()
        if self._run.complete:
            self._end(self._asked, f"{self._asked.name} is answered: fedboard ask answers")
        elif self._run.failures >= _MOST_FAILURES:
            self._give_up(self._asked, self._run.problem or "its runs ended")
        return starting

    def _next(self) -> bool:
        for put in questions_of(self._fleet):
            if put.number in self._over:
                continue
            if self._standing(put) is not Standing.WAITING:
                self._over.add(put.number)
                continue
            self._asked = put
            self._run = TrainingRun(self._control, put.state, say=self._say, what=put.name)
            self._say(f"{put.name}: {put.task().statement.sentence}")
            return True
        return False

    def _standing(self, put: PutQuestion) -> Standing | None:
        """None where its files are damaged, which is told."""
        try:
            return put.standing()
        except FedboardError as error:
            self._say(f"{put.name} is left out: {error}")
            return None

    def _end(self, put: PutQuestion, sentence: str) -> None:
        self._over.add(put.number)
        self._asked = self._run = None
        self._say(sentence)

    def _give_up(self, put: PutQuestion, problem: str) -> None:
        try:
            give_up(put, self._fleet, problem)
        except FedboardError as error:
            self._say(f"{put.name}: what is reserved for it stays so ({error})")
        self._end(put, f"{put.name} is given up: {problem}")
