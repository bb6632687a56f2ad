"""A run with everything in view: the honest sums, what was added to them, what left, what was booked."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from fedboard.common.arrays import IntArray
from fedboard.common.board import Board
from fedboard.common.contribution import Contribution, Request
from fedboard.common.per_user.participation import Attendance
from fedboard.common.privacy.events import Event
from fedboard.common.privacy.ledger.ledger import Ledger
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.privacy.releases.noise import NoiseSource
from fedboard.common.privacy.releases.noise_shares import coins_of
from fedboard.common.protocol import ExactSums
from fedboard.common.protocols.sums.exact import DenseSums, whole_sums
from fedboard.common.protocols.sums.row_bounds import asked_rows, rows_to_sum
from fedboard.common.protocols.sums.stacking import row_range
from fedboard.common.protocols.trusted.protocol import FactoredMessage
from fedboard.common.task import ReleasedSums
from fedboard.server.round import run_round
from fedboard.server.runtime import Gathered
from fedboard.simulations.audit.recording import Published, Recorder, RecordingSums
from fedboard.simulations.audit.sessions import Sessions
from fedboard.simulations.audit.subject import Subject
from fedboard.simulations.engine import Engine

Planted: TypeAlias = Callable[[Board, Sequence[Request]], Contribution | None]
"""Rows to be added to those of the honest users in the round after this board; None for none."""


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


def play(
    subject: Subject, engine: Engine, *, seed: int, honest: bool = True, planted: Planted | None = None
) -> Iterator[PlayedRound]:
    """Run all rounds with the real round loop, ledger, noise and aggregator.

    Args:
        subject: the parts.
        engine: hosts the honest users, and the workers that publish.
        seed: of the noise, where it is seeded.
        honest: whether the engine's users take part; otherwise the fleet is empty but for what is planted.
        planted: rows of an adversary; they pass the aggregator's own check or are dropped by it.

    Yields:
        Each round when it is finished.
    """
    noise = subject.noise(seed)
    board = subject.task.first_board(subject.catalogue)
    with (
        tempfile.TemporaryDirectory(prefix="fedboard-audit-") as folder,
        Ledger.create(Path(folder) / "ledger.sqlite", subject.budget) as ledger,
    ):
        while subject.task.requests(board):
            blocks = Path(folder) / f"round-{board.version}"
            blocks.mkdir()
            runtime = _Watched(subject, engine, Recorder(blocks), honest, planted, coins_of(noise))
            result = run_round(subject.task, board, runtime=runtime, ledger=ledger, noise=noise)
            yield runtime.seen(result.requests, before=board, after=result.board, ledger=ledger)
            board = result.board


class _Watched:
    """A runtime around the engine: adds the planted rows, remembers sums, writes down what leaves."""

    def __init__(
        self,
        subject: Subject,
        engine: Engine,
        recorder: Recorder,
        honest: bool,
        planted: Planted | None,
        drawn: NoiseSource,
    ) -> None:
        self._subject, self._engine, self._recorder = subject, engine, recorder
        self._with_fleet, self._planted, self._drawn = honest, planted, drawn
        self._honest: dict[str, IntArray] = {}
        self._rejected = 0

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """The honest users' sums and the planted rows', together."""
        if self._subject.sessions is not None:
            return self._carried(self._subject.sessions, board, tuple(requests))
        protocol = self._subject.protocol
        members = [protocol.combine((), requests)]
        if self._with_fleet:
            members = [self._engine.gather(board, requests, attendance).sums]
        self._honest = whole_sums(members[0], requests)
        added = None if self._planted is None else self._planted(board, requests)
        if added is not None:
            members.append(protocol.combine([FactoredMessage(added)], requests))
            self._rejected = members[-1].rejected_rows
        return Gathered(sums=DenseSums.total_of(members, requests))

    def _carried(self, sessions: Sessions, board: Board, requests: tuple[Request, ...]) -> Gathered:
        """The same through a session of another protocol."""
        held = self._engine.rows(board, requests).sums
        honest = asked_rows(held.rows.contribution(held.population), requests)
        rows = [honest if self._with_fleet else row_range(honest, 0, 0)]
        added = None if self._planted is None else self._planted(board, requests)
        if added is not None:
            kept = rows_to_sum(added, requests)  # a client of an honest device sends nothing else
            self._rejected = added.n_users - (0 if kept is None else kept.n_users)
            rows += [] if kept is None else [kept]
        self._honest = sessions.known(rows, rows[0], board, requests, self._drawn)
        return Gathered(sums=sessions.carry(rows, board, requests, self._drawn))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """The engine's noised sums, written down as they are read."""
        leaving = {name: self._subject.publisher(release) for name, release in booked.items()}
        return RecordingSums(self._engine.open(sums, requests, leaving), self._recorder)

    def seen(
        self, requests: Sequence[Request], *, before: Board, after: Board, ledger: Ledger
    ) -> PlayedRound:
        """What this round looked like."""
        found = {request.name: self._recorder.read(request.name) for request in requests}
        return PlayedRound(
            requests=tuple(requests),
            before=before,
            after=after,
            honest=self._honest,
            published={name: released for name, released in found.items() if released is not None},
            events={str(event["name"]): event for event in ledger.events()},
            rejected=self._rejected,
        )


__all__ = ["Planted", "PlayedRound", "play"]
