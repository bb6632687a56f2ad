"""Where a fleet's questions are, and how each of them stands: read from the files, whatever runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fedboard.common.board import Board
from fedboard.common.questions.stated_task import StatedQuestion, rebuilt_question
from fedboard.server.fleet.plan.closing import reason_of
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.publication import BoardStore

LEDGER = "ledger.sqlite"
"""Of a run, in its folder."""
_PREFIX = "question-"


class Standing(StrEnum):
    """How a question stands."""

    WAITING = "waiting"
    """Nobody was asked, or not all rounds are over."""
    ANSWERED = "answered"
    CLOSED = "closed"
    """Given up; nothing more is released in its name."""


@dataclass(frozen=True, slots=True)
class PutQuestion:
    """One question that was put to the fleet."""

    state: StateFolder
    """Of the question alone: its job, its first board, its run."""
    number: int

    @property
    def name(self) -> str:
        """Of its release, and of its folder."""
        return f"{_PREFIX}{self.number}"

    @property
    def is_put(self) -> bool:
        """Whether it is written down as a whole; its job is written last."""
        return self.state.job.exists()

    def task(self) -> StatedQuestion:
        """What is asked.

        Raises:
            InputError: its board is damaged.
        """
        return rebuilt_question(Board.load(self.state.first_board))

    def last_board(self) -> Board:
        """The last published one, or the first where none is.

        Raises:
            InputError: it is damaged.
        """
        boards = BoardStore(self.state.run / "boards")
        return boards.latest() if boards.versions() else Board.load(self.state.first_board)

    @property
    def reason(self) -> str | None:
        """Why it was given up; None where it was not."""
        return reason_of(self.state.run)

    def standing(self) -> Standing:
        """How it stands.

        Raises:
            InputError: a board of it is damaged.
        """
        if not self.task().requests(self.last_board()):
            return Standing.ANSWERED
        return Standing.WAITING if self.reason is None else Standing.CLOSED


def place_of(fleet: StateFolder, number: int) -> PutQuestion:
    """Where question N is or would be. The run is called after the fleet's, so that policies know it."""
    folder = fleet.questions / f"{_PREFIX}{number}"
    state = StateFolder(path=folder, name=f"{fleet.name}-{_PREFIX}{number}")
    return PutQuestion(state=state, number=number)


def questions_of(fleet: StateFolder) -> list[PutQuestion]:
    """All that were put, by their numbers."""
    return [
        place_of(fleet, number)
        for number in sorted(_numbers(fleet.questions))
        if place_of(fleet, number).is_put
    ]


def next_number(fleet: StateFolder) -> int:
    """Of a new question; one that could not be written down as a whole keeps its number to itself."""
    return max(_numbers(fleet.questions), default=0) + 1


def _numbers(folder: Path) -> Iterator[int]:
    for path in folder.glob(f"{_PREFIX}*"):
        number = path.name.removeprefix(_PREFIX)
        if number.isdecimal():
            yield int(number)
