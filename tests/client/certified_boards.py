"""Boards as a real server publishes them: each with the certificate of all that its ledger booked before."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedboard.client.boards.cache import BoardCache
from fedboard.client.boards.seen import CosignedBoards
from fedboard.client.participation.gate import DeviceGate
from fedboard.client.participation.ledger import DeviceLedger
from fedboard.client.participation.policy import Policy
from fedboard.client.participation.records import BookedRounds, KeptAnswers, RefusalCounts
from fedboard.client.participation.rounds import respond
from fedboard.client.participation.steps import Client, MemoryVault, respond_step
from fedboard.common.algorithms.adadpals.algorithm import AdaDpals
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.messages.question import Answer, Question
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.privacy.ledger.ledger import Budget, Ledger
from fedboard.common.privacy.releases.noise import NoiseSource, SecureNoise
from fedboard.common.protocols.trusted import Trusted
from fedboard.server.publication import BoardStore
from tests.client.asking import ASKER, asking, opened, signed
from tests.common.algorithms.conftest import a_prepared_board, population

RUN = "movies"
NO_LIMIT = 1 << 30
_SECURE = SecureNoise()


def put(cache: BoardCache, board: Board) -> Path:
    """A board that has arrived in the folder of a cache, and is taken in."""
    arrived = cache.folder / "arriving"
    board.save(arrived)
    return cache.adopt(arrived, digest=board.digest)


class Ratings:
    """The rows of a made-up population, one of them or all."""

    def __init__(self, cohort: Cohort | None = None) -> None:
        """Take user 4 where nobody is named."""
        self._cohort = population().rows(4, 5) if cohort is None else cohort

    @property
    def n_users(self) -> int:
        return self._cohort.n_users

    def cohort(self, board: Board) -> Cohort:
        return self._cohort


def certified_boards(
    folder: Path, task: AdaDpals, *, noise: NoiseSource = _SECURE, run: str = RUN
) -> list[Board]:
    """Boards 0, 1, 2 of a run that asks for two rounds after the preparation."""
    prepared = a_prepared_board(task)
    made: list[Board] = []
    contents = [task.first_board(prepared.catalogue).arrays, prepared.arrays, prepared.arrays]
    budget = Budget(epsilon=100.0, delta=1e-5, adjacency=task.settings.shared.adjacency)
    with Ledger.create(folder / f"{run}.sqlite", budget, run=run) as ledger:
        for version, arrays in enumerate(contents):
            board = made[-1].successor(**arrays) if made else task.first_board(prepared.catalogue)
            if version:
                asked = task.requests(made[-1])
                ledger.book_all([{**r.release.event(), **noise.describe()} for r in asked])
                board = with_certificate(board, ledger)
            made.append(board)
    return made


def with_certificate(board: Board, ledger: Ledger) -> Board:
    """A board as it is published; that it was is forgotten."""
    with TemporaryDirectory() as folder:
        return BoardStore(Path(folder)).publish(board, ledger, trust=Trusted().trust, dataset="made up")


class Device:
    """A device in a folder, opened anew for each question as a node does."""

    def __init__(
        self,
        folder: Path,
        policy: Policy,
        *,
        cache: BoardCache | None = None,
        cosigned: CosignedBoards | None = None,
    ) -> None:
        self.folder = folder
        self.policy = policy
        self.cache = cache
        self.cosigned = cosigned
        self.ratings = Ratings()
        self.asker = ASKER
        self.vault = MemoryVault()
        folder.mkdir(exist_ok=True)

    def ask(self, board: Board, **asked: Any) -> bytes:
        """What it sends, opened."""
        question = a_question(board, **asked)
        return opened(self.reply(signed(question.content)), question)

    def reply(self, content: bytes) -> bytes:
        """The bytes that it sends, as they travel."""
        with self.opened() as gate:
            return respond(content, source=self.ratings, gate=gate)

    def step(self, content: bytes, board: bytes | None) -> bytes:
        """What it sends in a step of a session, as it travels."""
        with self.opened() as gate:
            return respond_step(content, board, Client(source=self.ratings, gate=gate, vault=self.vault))

    @contextmanager
    def opened(self) -> Iterator[DeviceGate]:
        """Its gate."""
        with self._ledger() as ledger:
            yield DeviceGate(
                policy=self.policy,
                ledger=ledger,
                answers=KeptAnswers(
                    self.folder / "answers",
                    server=self.asker.id,
                    seconds=self.policy.answers_kept_hours * 3600,
                    clock=self.asker.clock,
                ),
                asker=self.asker,
                booked=BookedRounds(self.folder / "booked.json"),
                refusals=RefusalCounts(self.folder / "refusals.json"),
                cache=self.cache,
                cosigned=self.cosigned,
            )

    def code(self, board: Board, **asked: Any) -> Refusal | None:
        """The code of its refusal; None where it answers."""
        return refused(self.ask(board, **asked))

    def booked(self) -> Sequence[tuple[str, str, float]]:
        """Run, release and part of everything that it ever gave."""
        with self._ledger() as ledger:
            return [(given.run, given.release, given.scale) for given in ledger.given()]

    def spent(self) -> float:
        with self._ledger() as ledger:
            return ledger.spent().epsilon

    def refusals(self) -> dict[Refusal, int]:
        return dict(RefusalCounts(self.folder / "refusals.json").by_code())

    def _ledger(self) -> DeviceLedger:
        path = self.folder / "ledger.sqlite"
        return DeviceLedger.open(path) if path.exists() else DeviceLedger.create(path, self.policy.limit())


def a_question(board: Board, **asked: Any) -> Question:
    return asking(board, **{"run": RUN, **asked})


def refused(answer: bytes) -> Refusal | None:
    try:
        Answer.from_bytes(answer, limit=NO_LIMIT)
    except RefusedError as error:
        return error.code
    return None


def changed(board: Board, **arrays: np.ndarray) -> Board:
    """The same version with other content, as a server that shows two faces would make it."""
    return Board(
        version=board.version,
        task=board.task,
        config=board.config,
        arrays={**board.arrays, **arrays},
        catalogue=board.catalogue,
        previous_digest=board.previous_digest,
        certificate=board.certificate,
    )


__all__ = [
    "NO_LIMIT",
    "RUN",
    "Device",
    "Ratings",
    "a_question",
    "certified_boards",
    "changed",
    "opened",
    "refused",
    "with_certificate",
]
