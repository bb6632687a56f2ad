"""A runtime that carries a protocol's sessions to nodes, step after step.

The messages of one session: out to the nodes that a step asks, and back, sealed.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Any

import numpy as np

from fedboard.common.board import Board
from fedboard.common.contribution import Request, numbers_of
from fedboard.common.contribution_bounding.participation import Attendance, require_unsampled
from fedboard.common.errors import PrivacyError, TooFewAnswersError
from fedboard.common.files import write_atomically
from fedboard.common.messages.question import STEP
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import ReplyKey, is_sealed
from fedboard.common.messages.signing import ENVELOPE_BYTES
from fedboard.common.messages.step import SESSION_BYTES, StepMessage, reply_of
from fedboard.common.protocol import ServerSession
from fedboard.common.protocols.properties import shows_rows
from fedboard.common.protocols.registry import names_where
from fedboard.common.protocols.sessions import OpenStep, SessionLoop
from fedboard.server.fleet.job import ProtocolOf
from fedboard.server.fleet.rounds.asking import Asking, SignedMessage
from fedboard.server.fleet.rounds.over_nodes import LASTING, REFUSING, OverNodes, all_refuse, told_refusals
from fedboard.server.runtime import Gathered, Traffic

_BYTES_PER_NUMBER, _BYTES_PER_USER, _OTHER_BYTES = 16, 1 << 20, 1 << 22
_MOST_BYTES = 1 << 31
_TRY_AGAIN_SECONDS = 2.0
_SLACK_BYTES = 1 << 17
"""Of a sealed reply, beyond the protocol's own bytes."""


@dataclass(slots=True, kw_only=True)
class Carrier:
    """Carries one session. Its name and the key that replies are sealed to are fresh, and in memory only."""

    runtime: OverNodes
    """Of its protocol, name and parameters are told to clients."""
    board: Board
    nodes: Mapping[str, int]
    """Those that the session was opened with: identity -> most users."""
    largest: int
    """Most bytes of the protocol's own in a reply."""
    _session: bytes = field(default_factory=lambda: os.urandom(SESSION_BYTES))
    _key: ReplyKey = field(default_factory=ReplyKey)
    _up: Counter[str] = field(default_factory=Counter)
    _down: int = 0
    _declined: dict[str, Refusal] = field(default_factory=dict)

    @property
    def about(self) -> bytes:
        """What the session is about."""
        return self._step(0, b"").about

    @property
    def traffic(self) -> Traffic | None:
        """What nodes sent, and what one of them got."""
        return Traffic.of(np.array(list(self._up.values()), dtype=np.int64), self._down)

    def declined(self, codes: Collection[Refusal]) -> set[str]:
        """Nodes that were settled by one of these refusals."""
        return {name for name, code in self._declined.items() if code in codes}

    def carry(self, step: OpenStep) -> dict[str, Any]:
        """One step: out to all that are asked, and back.

        Returns:
            For the log, not for publication: how many were asked and have answered, bytes of all of them (without
            what was sent again), seconds, and whether it asked for what clients give.
        """
        board = bytes(self.board.to_bytes()) if step.asks_contributions else b""
        asked = {name: users for name, users in self.nodes.items() if name in step.asked}
        steps = {name: self._step(step.number, step.messages[name]).to_bytes() for name in asked}
        frames = {
            name: SignedMessage(key=self.runtime.key, message=said, beside=board)
            for name, said in steps.items()
        }
        before = self._up.total()

        def take(node: str, _: int, content: bytes) -> None:
            step.take(node, self._opened(content, step.number))
            self._up[node] += len(content)

        asking = Asking(
            roster=self.runtime.roster,
            kind=STEP,
            message=frames.__getitem__,
            largest=self.largest + _SLACK_BYTES,
            take=take,
            complete=partial(self._complete, set(asked)),
            again=lambda: len(step.taken) < min(self.runtime.job.rounds.quorum, len(asked)),
            attempts=self.runtime.job.rounds.attempts,
            newcomers=False,
            refused=self.runtime.refused,
            declined=self._declined,
        )
        began = time.monotonic()
        asking.run(asked, seconds=self.runtime.job.rounds.deadline_seconds / 4)
        down = [len(said) + ENVELOPE_BYTES + len(board) for said in steps.values()]
        self._down += max(down, default=0)
        return {
            "contributions": step.asks_contributions,
            "asked": len(asked),
            "answered": len(step.taken),
            "bytes_up": self._up.total() - before,
            "bytes_down": sum(down),
            "seconds": time.monotonic() - began,
        }

    def _step(self, number: int, message: bytes) -> StepMessage:
        return StepMessage(
            run=self.runtime.run,
            round=self.board.version,
            board_digest=self.board.digest,
            session=self._session,
            number=number,
            protocol=self.runtime.protocol.name,
            parameters=self.runtime.protocol.parameters,
            private_noise=self.runtime.job.privacy.noise == "secure",
            reply_key=self._key.public,
            message=message,
        )

    def _complete(self, asked: set[str], settled: set[str], present: set[str], seconds: float) -> bool:
        """All are settled, or all that are still there and the others have not come back for a while."""
        grace = self.runtime.job.rounds.grace_seconds
        return settled >= asked or (settled >= asked & present and seconds >= grace)

    def _opened(self, content: bytes, number: int) -> bytes:
        """The protocol's reply; only a refusal, which says nothing of anybody, may come as it is."""
        if len(content) > self.largest + _SLACK_BYTES:
            raise RefusedError(Refusal.TOO_LARGE)
        sealed = is_sealed(content)
        about = self._step(number, b"").sealed_about
        reply = reply_of(self._key.open(content, about=about) if sealed else content, limit=self.largest)
        if not sealed:
            raise RefusedError(Refusal.MALFORMED)
        return reply


@dataclass(slots=True, kw_only=True)
class SessionRuntime(OverNodes):
    """Runs a protocol of any number of steps. Whoever does not answer a step in time is out of the session; a reply
    that does not count is refused alone. Whether enough are left is the protocol's to say, and the quorum's.

    A session that ends before it asked for contributions has cost nobody anything, and another one is opened. One
    lives in this process's memory: where it was lost after it had asked for contributions, the round is asked again
    of whoever has not given yet, and is lost if those are too few.
    """

    of_round: ProtocolOf
    """What opens a round; it has the parameters of ``protocol``."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    """What each step of the last round cost."""
    _declined: set[str] = field(default_factory=set)
    """Nodes whose policy refuses this run."""
    _asked: bool = False
    """Whether the last round has asked for contributions."""

    def gather(
        self, board: Board, requests: Sequence[Request], attendance: Attendance | None = None
    ) -> Gathered:
        """Open a session with the nodes that are there, and run it to its end.

        Raises:
            PrivacyError: the requests state who takes part, which a session cannot draw.
            TooFewAnswersError: too few nodes were there or stayed.
        """
        require_unsampled(requests)
        if attendance is not None and attendance.participation.event_field(attendance.name) is not None:
            raise PrivacyError(
                "who takes part can only be drawn by an aggregator that sees rows; use protocol "
                f"'{names_where(shows_rows)}'"
            )
        self.shown(board)
        self.refused.clear()
        self.steps.clear()
        self.n_answers = self.attempts = 0
        begun = self._asked = self._marker == self._mark(board)
        while True:
            self.attempts += 1
            try:
                return self._gathered(board, requests)
            except TooFewAnswersError as error:
                if self._asked or self.attempts >= self.job.rounds.attempts:
                    sentence = f"round {board.version}: {error} (not taken: {told_refusals(self.refused)})"
                    given = error.given or begun
                    raise TooFewAnswersError(sentence, given=given, asked=self._asked) from error
            time.sleep(min(_TRY_AGAIN_SECONDS, self.job.rounds.grace_seconds))

    def told(self) -> dict[str, Any]:
        """What the log says of the last round."""
        asked = max((step["asked"] for step in self.steps), default=1)
        self.bytes_up = sum(step["bytes_up"] for step in self.steps)
        self.bytes_down = sum(step["bytes_down"] for step in self.steps) // max(asked, 1)
        return {**OverNodes.told(self), "steps": self.steps}

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
                self.n_answers = self.steps[-1]["answered"]
                if not step.taken and step.asked <= carrier.declined(REFUSING):
                    self._asked = False
                    self._declined.clear()  # by then their policy may be another one
                    if not begun:
                        self._marker_path.unlink()
                    raise TooFewAnswersError(all_refuse(len(step.asked)), asked=False)
                self._round, self._gave = board.version, frozenset(step.taken)
                if self.n_answers < self.job.rounds.quorum:
                    raise TooFewAnswersError(
                        f"{self.n_answers} nodes gave their contribution in time and the quorum is "
                        f"{self.job.rounds.quorum}; nothing was released",
                        given=True,
                    )

        sums = SessionLoop(session=session).run(carry)
        return Gathered(sums=sums, traffic=carrier.traffic)

    def _opened(self, board: Board, requests: Sequence[Request]) -> tuple[Carrier, ServerSession]:
        """A session with those who are there; where they are too few, or a second server is away, it is tried again
        until the deadline.
        """
        began = time.monotonic()
        # of all sums, and of what users send one by one under protocols that need it
        most = _BYTES_PER_NUMBER * numbers_of(requests) + self.job.most_users * _BYTES_PER_USER + _OTHER_BYTES
        largest = min(most, _MOST_BYTES)
        while True:
            found = self.roster.when_enough()
            willing = [name for name in found if name not in self._declined]
            # by lot where more are there than the protocol was sized for
            chosen = SystemRandom().sample(willing, min(len(willing), self.job.rounds.expected_nodes))
            there = {name: found[name] for name in sorted(chosen)}
            carrier = Carrier(runtime=self, board=board, nodes=there, largest=largest)
            try:
                return carrier, self.of_round(board).open(
                    carrier.about, requests, list(there), n_items=board.catalogue.n_items
                )
            except TooFewAnswersError as error:
                if error.given or time.monotonic() - began >= self.job.rounds.deadline_seconds:
                    raise
            time.sleep(min(_TRY_AGAIN_SECONDS, self.job.rounds.grace_seconds))

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
