"""A run with everything in view: the honest sums, what was added to them, what left, what was booked."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fedboard.common.arrays import Float32Array, FloatArray, IntArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.contribution_bounding.participation import Attendance
from fedboard.common.errors import PrivacyError
from fedboard.common.kernels.blas_threads import one_blas_thread_here
from fedboard.common.privacy.events import Event
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.noise_shares import coins_of
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import DenseSums, whole_sums
from fedboard.common.protocols.sums.row_bounds import asked_rows, rows_to_sum
from fedboard.common.task import ItemBlockSolver, ReleasedSums, RoundTask
from fedboard.server.runtime import Gathered
from fedboard.simulations.audit.sessions import Held, Sessions
from fedboard.simulations.audit.subject import Subject
from fedboard.simulations.engine import Engine, WorkerPool

Planted: TypeAlias = Callable[[Board, Sequence[Request]], Contribution | None]
"""Rows to be added to those of the honest users in the round after this board; None for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One release as it left: what an outsider who saw everything would hold."""

    values: FloatArray
    """float64, shape (rows, width), real units. Public."""
    starts: tuple[int, ...]
    """First row of each part that was published in one go, ascending; parts may come from several processes."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """Published blocks, in a folder: some of them come from worker processes."""

    folder: Path

    def write(self, name: str, start: int, values: FloatArray) -> None:
        """Keep a block; writing the same rows twice keeps both, so that ``read`` can tell."""
        prefix = f"{_slug(name)}@{start}@"
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix=prefix, suffix=".npy", delete=False) as out:
            np.save(out, values)

    def read(self, name: str) -> Published | None:
        """A release put together again; None where nothing of it was published.

        Raises:
            PrivacyError: some rows were published twice, or not all of them.
        """
        files = self.folder.glob(f"{_slug(name)}@*.npy")
        parts = sorted((int(path.name.split("@")[1]), path) for path in files)
        if not parts:
            return None
        starts, blocks = tuple(start for start, _ in parts), [np.load(path) for _, path in parts]
        stops = np.cumsum([len(block) for block in blocks])
        if starts != (0, *stops[:-1].tolist()):
            raise PrivacyError(f"release {name!r}: rows were published twice or left out")
        return Published(values=np.concatenate(blocks), starts=starts)


@dataclass(frozen=True, slots=True)
class RecordingSums:
    """Released sums that are written down as they are read."""

    inner: ReleasedSums
    recorder: Recorder

    @property
    def noise_ratio(self) -> float:
        """Deviation of the noise over the booked one."""
        return self.inner.noise_ratio

    def array(self, name: str) -> FloatArray:
        """One release as a whole."""
        values = self.inner.array(name)
        self.recorder.write(name, 0, values)
        return values

    def map_items(self, names: tuple[str, ...], solver: ItemBlockSolver, *, width: int) -> Float32Array:
        """Blocks of items, each written down where it is solved."""
        return self.inner.map_items(names, _RecordingSolver(solver, self.recorder), width=width)


@dataclass(frozen=True, slots=True)
class _RecordingSolver:
    solver: ItemBlockSolver
    recorder: Recorder

    def __call__(self, start: int, blocks: Mapping[str, FloatArray]) -> Float32Array:
        for name, values in blocks.items():
            self.recorder.write(name, start, values)
        return self.solver(start, blocks)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What left, to be read once more by a task that has nothing else."""

    published: Mapping[str, Published]
    noise_ratio: float

    def array(self, name: str) -> FloatArray:
        """One release as it left."""
        return self.published[name].values.copy()

    def map_items(self, names: tuple[str, ...], solver: ItemBlockSolver, *, width: int) -> Float32Array:
        """In the blocks in which it left: kernels may round differently for others."""
        left = [self.published[name] for name in names]
        stops = (*left[0].starts[1:], len(left[0].values))
        blocks = [
            solver(
                start, {name: part.values[start:stop].copy() for name, part in zip(names, left, strict=True)}
            )
            for start, stop in zip(left[0].starts, stops, strict=True)
        ]
        return np.concatenate(blocks) if blocks else np.empty((0, width), dtype=np.float32)


@one_blas_thread_here()
def remade(task: RoundTask, before: Board, published: Mapping[str, Published], noise_ratio: float) -> Board:
    """The board that follows from a board and what left, and from nothing else."""
    return task.update(before, Replayed(published, noise_ratio))


def _slug(name: str) -> str:
    return name.encode().hex()  # names may hold slashes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRound:
    """One round, seen from everywhere at once."""

    requests: tuple[Request, ...]
    before: Board
    after: Board
    honest: Mapping[str, IntArray]
    """By release name: exact sums over the honest users, int64, shape (rows, width). Private."""
    published: Mapping[str, Published]
    """By release name: what left. Releases that nothing read are missing, and have not left."""
    events: Mapping[str, Event]
    """By release name: what the ledger booked."""
    rejected: int
    """Planted rows that the aggregator dropped."""
    unexplained: Mapping[str, int]
    """By release name: how far, at most, the sums of those in the run's engine are from those that the adversary
    expects of them, grid units; 0 where nobody's part depends on who else is there. Private."""
    noise_ratio: float
    """Deviation of the noise in what left over the booked one, as the task was told."""
    held: Held
    """What the parties of a protocol hold before anything is published."""


def play(
    subject: Subject,
    users: Cohort,
    *,
    pool: WorkerPool,
    seed: int,
    planted: Planted | None = None,
    known: Cohort | None = None,
    in_file: bool = False,
) -> Iterator[PlayedRound]:
    """Run all rounds with the real round loop, engine, ledger, noise and aggregator.

    Args:
        subject: the parts.
        users: everybody who is in the run's file; no rows for an empty fleet. Private.
        pool: where jobs run; its workers publish.
        seed: of the noise, where it is seeded.
        planted: rows of an adversary; they pass the aggregator's own check or are dropped by it.
        known: whose ratings the adversary knows, as read without any other; None: all of ``users``.
        in_file: the planted rows are those of users in the file, and are not added to theirs.

    Yields:
        Each round when it is finished.
    """
    noise = subject.noise(seed)
    board = subject.task.first_board(subject.catalogue)
    with (
        tempfile.TemporaryDirectory(prefix="fedboard-audit-") as folder,
        Ledger.create(Path(folder) / "ledger.sqlite", subject.budget) as ledger,
        subject.engine(users, pool) as engine,
        nullcontext(engine) if known is None else subject.engine(known, pool) as engine_of_known,
    ):
        while subject.task.requests(board):
            blocks = Path(folder) / f"round-{board.version}"
            blocks.mkdir()
            runtime = _Watched(
                subject=subject,
                engine=engine,
                nobody=users.n_users == 0,
                recorder=Recorder(blocks),
                planted=planted,
                drawn=coins_of(noise),
                known=engine_of_known,
                in_file=in_file,
            )
            result = subject.round_loop(subject.task, board, runtime=runtime, ledger=ledger, noise=noise)
            yield runtime.seen(result.requests, before=board, after=result.board, ledger=ledger)
            board = result.board


@dataclass(slots=True, kw_only=True)
class _Watched:
    """A runtime around the engine: adds the planted rows, remembers sums, writes down what leaves."""

    subject: Subject
    engine: Engine
    nobody: bool
    """Whether the engine hosts no user at all."""
    recorder: Recorder
    planted: Planted | None
    drawn: NoiseSource
    known: Engine
    in_file: bool
    honest: dict[str, IntArray] = field(default_factory=dict)
    unexplained: dict[str, int] = field(default_factory=dict)
    held: Held = field(default_factory=Held)
    noise_ratio: float = 1.0
    rejected: int = 0

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """The sums of everybody in the file and of the planted rows, together."""
        if self.subject.sessions is not None:
            return self._carried(self.subject.sessions, board, tuple(requests))
        protocol = self.subject.protocol
        members = [protocol.combine((), requests)]
        if not self.nobody:
            members = [self.engine.gather(board, requests, attendance).sums]
        known = members[0] if self.known is self.engine else self.known.gather(board, requests).sums
        self.honest = whole_sums(known, requests)
        added = None if self.planted is None else self.planted(board, requests)
        mine = protocol.combine([] if added is None else [added], requests)
        self._compare(members[0], mine, requests)
        if added is not None and not self.in_file:
            members.append(mine)
            self.rejected = mine.rejected_rows
        return Gathered(sums=DenseSums.total_of(members, requests))

    def _compare(self, inside: ExactSums, mine: ExactSums, requests: Sequence[Request]) -> None:
        """Whether those in the engine give what they give by themselves, to the last bit."""
        theirs = whole_sums(mine, requests) if self.in_file else {}
        for name, sums in whole_sums(inside, requests).items():
            expected = self.honest[name] + theirs.get(name, 0)
            self.unexplained[name] = int(np.abs(sums - expected).max(initial=0))

    def _carried(self, sessions: Sessions, board: Board, requests: tuple[Request, ...]) -> Gathered:
        """The same through a session of another protocol."""
        everybody = self._asked(self.engine, board, requests)
        honest = everybody if self.known is self.engine else self._asked(self.known, board, requests)
        rows, own = [everybody], None
        added = None if self.planted is None else self.planted(board, requests)
        if added is not None:
            own = rows_to_sum(added, requests)  # a client of an honest device sends nothing else
            self.rejected = added.n_users - (0 if own is None else own.n_users)
        combine = self.subject.protocol.combine
        exact = combine([honest], requests)
        self.honest = whole_sums(exact, requests)
        inside = combine([everybody], requests)
        self._compare(inside, combine([] if own is None else [own], requests), requests)
        if own is not None and not self.in_file:
            rows.append(own)
        sums = sessions.carry(rows, board, requests, self.drawn, self.held)
        self.honest = sessions.known(rows, honest, board, requests, self.drawn, self.held)
        return Gathered(sums=sums)

    def _asked(self, engine: Engine, board: Board, requests: tuple[Request, ...]) -> Contribution:
        found = engine.round_of(board, requests)
        return asked_rows(found.contribution(0, found.work.stream.n_users), requests)

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """The engine's noised sums, written down as they are read."""
        noised = self.subject.opened(self.engine, sums, requests, booked)
        self.noise_ratio = noised.noise_ratio
        return RecordingSums(noised, self.recorder)

    def seen(
        self, requests: Sequence[Request], *, before: Board, after: Board, ledger: Ledger
    ) -> PlayedRound:
        """What this round looked like."""
        found = {request.name: self.recorder.read(request.name) for request in requests}
        return PlayedRound(
            requests=tuple(requests),
            before=before,
            after=after,
            honest=self.honest,
            published={name: released for name, released in found.items() if released is not None},
            events={str(event["name"]): event for event in ledger.events()},
            rejected=self.rejected,
            unexplained=self.unexplained,
            noise_ratio=self.noise_ratio,
            held=self.held,
        )
