"""A runtime that carries a protocol's sessions over a Flower grid, step after step."""

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import Any

from flwr.serverapp import Grid

from fedboard.common.board import Board
from fedboard.common.contribution import Request, numbers_of
from fedboard.common.errors import PrivacyError, TooFewAnswersError
from fedboard.common.files import write_atomically
from fedboard.common.per_user.participation import Attendance, require_unsampled
from fedboard.common.privacy.releases.gaussian import BookedRelease
from fedboard.common.protocol import AggregationProtocol, ExactSums, ServerSession
from fedboard.common.protocols.registry import names_where
from fedboard.common.protocols.shared.properties import shows_rows
from fedboard.common.protocols.shared.sessions import OpenStep, SessionLoop
from fedboard.common.task import ReleasedSums
from fedboard.common.wire.refusals import Refusal
from fedboard.common.wire.signing import QuestionKey
from fedboard.server.fleet.plan.job import Job
from fedboard.server.fleet.plan.protocols import ProtocolOf
from fedboard.server.fleet.rounds.booked_rounds import BookedRounds
from fedboard.server.fleet.rounds.pace import TOLD, Pace
from fedboard.server.fleet.rounds.quorum import Node, Roster
from fedboard.server.fleet.rounds.session_exchange import CarriedStep, Carrier
from fedboard.server.fleet.rounds.trusted_rounds import (
    LASTING,
    REFUSING,
    OnProgress,
    all_refuse,
    told_of,
    told_refusals,
)
from fedboard.server.runtime import Gathered, NoisedSums

_BYTES_PER_NUMBER, _BYTES_PER_USER, _OTHER_BYTES = 16, 1 << 20, 1 << 22
_MOST_BYTES = 1 << 31
_TRY_AGAIN_SECONDS = 2.0


@dataclass(slots=True, kw_only=True)
class SessionRuntime:
    """Runs a protocol of any number of steps. Whoever does not answer a step in time is out of the session; a reply
    that does not count is refused alone. Whether enough are left is the protocol's to say, and the quorum's.

    A session that ends before it asked for contributions has cost nobody anything, and another one is opened. One
    lives in this process's memory: where it was lost after it had asked for contributions, the round is asked again
    of whoever has not given yet, and is lost if those are too few.
    """

    grid: Grid
    job: Job
    key: QuestionKey
    """Signs what is asked."""
    run: str
    protocol: AggregationProtocol
    of_round: ProtocolOf
    """What opens a round; it has the parameters of ``protocol``."""
    pace: Pace
    """Of the run's nodes so far."""
    on_progress: OnProgress | None = None
    refused: Counter[Refusal] = field(default_factory=Counter)
    """How often a reply was not taken, by code, in the last round."""
    n_answers: int = 0
    """Nodes whose contribution was taken in the last round."""
    steps: list[CarriedStep] = field(default_factory=list)
    """What each step of the last round cost."""
    sessions: int = 0
    """That the last round has opened."""
    _declined: set[str] = field(default_factory=set)
    """Nodes whose policy refuses this run."""
    _asked: bool = False
    """Whether the last round has asked for contributions."""
    booked: BookedRounds = field(init=False)
    """What devices keep of it."""
    _roster: Roster = field(init=False)
    _round: int = -1
    _gave: frozenset[str] = frozenset()
    """Nodes whose answers are in the sums of this round."""

    def __post_init__(self) -> None:
        """One roster for the whole run: it remembers who was heard from."""
        self._roster = Roster(self.grid, self.job)
        self.booked = BookedRounds(roster=self._roster, key=self.key, run=self.run, pace=self.pace)

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """Open a session with the nodes that are there, and run it to its end.

        Raises:
            PrivacyError: the requests state who takes part, which a session cannot draw.
            TooFewAnswersError: too few nodes were there or stayed.
        """
        _require_everybody(requests, attendance)
        self.refused.clear()
        self.steps.clear()
        self.n_answers = self.sessions = 0
        begun = self._asked = self._marker == self._mark(board)
        while True:
            self.sessions += 1
            try:
                return self._gathered(board, requests)
            except TooFewAnswersError as error:
                if self._asked or self.sessions >= self.job.rounds.attempts:
                    sentence = f"round {board.version}: {error} (not taken: {told_refusals(self.refused)})"
                    given = error.given or begun
                    raise TooFewAnswersError(sentence, given=given, asked=self._asked) from error
            time.sleep(min(_TRY_AGAIN_SECONDS, self.job.rounds.grace_seconds))

    def open(
        self, sums: ExactSums, requests: Sequence[Request], booked: Mapping[str, BookedRelease]
    ) -> ReleasedSums:
        """Noised sums of releases that are paid for, once the devices keep that they are."""
        last = max((one.receipt for one in booked.values()), key=lambda receipt: receipt.seq)
        self.booked.confirm(self._round, last.hash, self._gave)
        return NoisedSums(sums=sums, requests=requests, booked=booked)

    def close(self) -> None:
        """Nobody is asked any more."""
        self._roster.close()

    def told(self) -> dict[str, Any]:
        """What the log says of the last round."""
        up, down = sum(step.bytes_up for step in self.steps), sum(step.bytes_down for step in self.steps)
        asked = max((step.asked for step in self.steps), default=0)
        whole = told_of(self.n_answers, self.refused, bytes_up=up, bytes_down=down // max(asked, 1))
        steps = [asdict(step) for step in self.steps]
        of_all = {"attempts": self.sessions, TOLD: self.pace.slowest}
        return {**whole, **of_all, "protocol": self.protocol.name, "steps": steps}

    def _gathered(self, board: Board, requests: Sequence[Request]) -> Gathered:
        carrier, session = self._opened(board, requests)

        def carry(step: OpenStep) -> None:
            if step.asks_contributions:
                begun = self._marker == self._mark(board)
                write_atomically(self._marker_path, self._mark(board).encode())
                self._asked = True
            self.steps.append(carrier.carry(step))
            self._declined |= carrier.declined(LASTING)
            if step.asks_contributions:
                self.n_answers = self.steps[-1].answered
                if not step.taken and step.asked <= carrier.declined(REFUSING):
                    self._asked = False
                    self._declined.clear()  # by then their policy may be another one
                    if not begun:
                        self._marker_path.unlink()
                    raise TooFewAnswersError(all_refuse(len(step.asked)), asked=False)
                self._round, self._gave = board.version, frozenset(step.taken)
                self._require_quorum()

        sums = SessionLoop(session=session).run(carry)
        return Gathered(sums=sums, traffic=carrier.traffic)

    def _opened(self, board: Board, requests: Sequence[Request]) -> tuple[Carrier, ServerSession]:
        """A session with those who are there; where they are too few, or a second server is away, it is tried again
        until the deadline.
        """
        began = time.monotonic()
        largest = _largest_reply(requests, self.job.most_users)
        while True:
            there = self._invited(self._roster.when_enough())
            carrier = Carrier(
                roster=self._roster,
                pace=self.pace,
                signs=self.key,
                protocol=self.protocol,
                run=self.run,
                board=board,
                nodes=there,
                largest=largest,
                refused=self.refused,
                on_progress=self.on_progress,
            )
            names = [node.name for node in there.values()]
            try:
                return carrier, self.of_round(board).open(
                    carrier.about, requests, names, n_items=board.catalogue.n_items
                )
            except TooFewAnswersError as error:
                if error.given or time.monotonic() - began >= self.job.rounds.deadline_seconds:
                    raise
            time.sleep(min(_TRY_AGAIN_SECONDS, self.job.rounds.grace_seconds))

    def _invited(self, there: Mapping[int, Node]) -> dict[int, Node]:
        """Whose policy does not refuse, by lot where more are there than the protocol was sized for."""
        willing = [number for number, node in there.items() if node.name not in self._declined]
        chosen = SystemRandom().sample(willing, min(len(willing), self.job.rounds.expected_nodes))
        return {number: there[number] for number in sorted(chosen)}

    def _require_quorum(self) -> None:
        quorum = self.job.rounds.quorum
        if self.n_answers < quorum:
            raise TooFewAnswersError(
                f"{self.n_answers} nodes gave their contribution in time and the quorum is {quorum}; nothing was "
                "released",
                given=True,
            )

    @property
    def _marker_path(self) -> Path:
        return Path(self.job.folder) / "contributions-asked.json"

    @property
    def _marker(self) -> str | None:
        try:
            return self._marker_path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def _mark(self, board: Board) -> str:
        return json.dumps([self.run, board.version, board.digest])


def _require_everybody(requests: Sequence[Request], attendance: Attendance | None) -> None:
    require_unsampled(requests)
    if attendance is not None and attendance.participation.event_field(attendance.name) is not None:
        raise PrivacyError(
            "who takes part can only be drawn by an aggregator that sees rows; use protocol "
            f"'{names_where(shows_rows)}'"
        )


def _largest_reply(requests: Sequence[Request], most_users: int) -> int:
    """Most bytes of a reply: of all sums, and of what users send one by one under protocols that need it."""
    numbers = numbers_of(requests)
    return min(_BYTES_PER_NUMBER * numbers + most_users * _BYTES_PER_USER + _OTHER_BYTES, _MOST_BYTES)
