"""A release whose booking failed does not happen: no noise, no board, no answer, wherever the storage gave way."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fedboard.common.board import Board, Catalogue
from fedboard.common.errors import PrivacyError, StorageError
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.noise import NoiseStream, SeededNoise
from fedboard.common.protocols.trusted import Trusted
from fedboard.common.queries.collection import Mechanism, Subject
from fedboard.common.queries.mean import MeanQuestion
from fedboard.common.queries.wording import QuestionTask
from fedboard.server.publication import BoardStore
from fedboard.server.question import ask
from fedboard.server.training import Training
from fedboard.simulations.engine import Engine, WorkerPool
from tests.common.algorithms.conftest import N_ITEMS, a_task, population
from tests.server.test_round import InThisProcess, a_budget

TASK = a_task()
FIRST = TASK.first_board(Catalogue(item_ids=tuple(map(str, range(N_ITEMS)))))
STATEMENTS = ["BEGIN IMMEDIATE", "INSERT INTO events", "COMMIT"]


@dataclass
class Watched:
    """Seeded noise that remembers which streams it was asked for."""

    asked: list[str] = field(default_factory=list)
    inner: SeededNoise = field(default_factory=lambda: SeededNoise(3))

    @property
    def private(self) -> bool:
        return self.inner.private

    @property
    def label(self) -> str:
        return self.inner.label

    def describe(self) -> dict[str, Any]:
        return self.inner.describe()

    def stream(self, name: str) -> NoiseStream:
        self.asked.append(name)
        return self.inner.stream(name)


@dataclass
class FullDisk:
    """A connection on which one kind of statement fails as it does on a full disk."""

    inner: sqlite3.Connection
    statement: str

    def execute(self, query: str, *parameters: Any) -> Any:
        if query.startswith(self.statement):
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self.inner.execute(query, *parameters)

    @property
    def in_transaction(self) -> bool:
        return self.inner.in_transaction

    def close(self) -> None:
        self.inner.close()


@contextmanager
def full_disk(ledger: Ledger, statement: str) -> Iterator[None]:
    """While this lasts, nothing can be written to a ledger."""
    chain = ledger._chain
    held = chain._connection
    assert held is not None
    chain._connection = FullDisk(held, statement)  # type: ignore[assignment]
    try:
        yield
    finally:
        chain._connection = held


@dataclass
class Run:
    """A training run, to be disturbed at any round."""

    training: Training
    noise: Watched
    board: Board

    @staticmethod
    def of(folder: Path, ledger: Ledger) -> "Run":
        noise = Watched()
        training = Training(
            task=TASK, store=BoardStore(folder), ledger=ledger, runtime=InThisProcess(TASK), noise=noise,
            trust=Trusted().trust, dataset="made up",
        )  # fmt: skip
        return Run(training=training, noise=noise, board=training.start(FIRST))

    def go_on(self, rounds: int | None = None) -> None:
        """So many rounds, or all that follow."""
        for number, finished in enumerate(self.training.rounds(self.board), start=1):
            self.board = finished.board
            if number == rounds:
                return


def a_ledger(folder: Path) -> Ledger:
    return Ledger.create(folder / "ledger.sqlite", a_budget(), plan=TASK.settings.shared.noise_multipliers)


@pytest.mark.slow
@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("rounds_before", [0, 1])
def test_a_round_that_cannot_be_booked_draws_nothing_and_leaves_no_board(
    statement: str, rounds_before: int, tmp_path: Path
) -> None:
    (tmp_path / "undisturbed").mkdir()
    with a_ledger(tmp_path / "undisturbed") as ledger:
        undisturbed = Run.of(tmp_path / "undisturbed", ledger)
        undisturbed.go_on()
    with a_ledger(tmp_path) as ledger:
        run = Run.of(tmp_path, ledger)
        if rounds_before:
            run.go_on(rounds_before)
        booked, boards, drawn = ledger.events(), run.training.store.versions(), list(run.noise.asked)

        with full_disk(ledger, statement), pytest.raises(StorageError, match="nothing is released"):
            run.go_on()

        assert ledger.events() == booked
        assert run.training.store.versions() == boards
        assert run.noise.asked == drawn

        run.go_on()  # the disk is mended

        assert run.board.digest == undisturbed.board.digest
        assert {event["name"] for event in ledger.events()} == set(TASK.settings.shared.noise_multipliers)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_question_that_cannot_be_booked_is_not_answered(statement: str, tmp_path: Path) -> None:
    question = MeanQuestion(subject=Subject.RATINGS, low=1.0, high=5.0, bound=10.0)
    task, noise = QuestionTask(question=question, release_name="question-1"), Watched()
    catalogue = Catalogue(item_ids=tuple(map(str, range(N_ITEMS))))
    with (
        WorkerPool(1) as pool,
        Engine(task, population(), protocol=Trusted(), pool=pool) as engine,
        Ledger.create(tmp_path / "ledger.sqlite", a_budget()) as ledger,
    ):
        with full_disk(ledger, statement), pytest.raises(StorageError, match="nothing is released"):
            ask(
                task, runtime=engine, catalogue=catalogue, ledger=ledger, noise=noise, epsilon=1.0,
                mechanism=Mechanism.GAUSSIAN,
            )  # fmt: skip

        assert ledger.events() == []
        assert noise.asked == []


def failing_quietly(ledger: Ledger) -> Any:
    """What ``writing`` would be if it kept a failure of the storage to itself."""
    honest = ledger._chain.writing

    @contextmanager
    def writing() -> Iterator[Any]:
        with suppress(StorageError), full_disk(ledger, "COMMIT"), honest() as add:
            yield add

    return writing


def test_no_board_is_published_whose_releases_are_not_in_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a failure got lost on its way: receipts are there, the rows are not."""
    with a_ledger(tmp_path) as ledger:
        run = Run.of(tmp_path, ledger)
        monkeypatch.setattr(ledger._chain, "writing", failing_quietly(ledger))

        with pytest.raises(PrivacyError, match=r"board 1 is not published.*counts.*not in the ledger"):
            run.go_on()

        assert ledger.events() == []
        assert run.training.store.versions() == [0]
