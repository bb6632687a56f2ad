"""The messages of one session over a Flower grid: out to the nodes that a step asks, and back, sealed."""

import os
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from fedboard.common.board import Board
from fedboard.common.protocol import AggregationProtocol
from fedboard.common.protocols.shared.sessions import OpenStep
from fedboard.common.rounds.question import STEP
from fedboard.common.rounds.step import SESSION_BYTES, StepMessage, reply_of
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.common.wire.sealing import ReplyKey, is_sealed
from fedboard.common.wire.signing import ENVELOPE_BYTES, QuestionKey
from fedboard.server.fleet.rounds.asking import Asking
from fedboard.server.fleet.rounds.pace import Pace
from fedboard.server.fleet.rounds.quorum import Node, Roster
from fedboard.server.fleet.rounds.signed_message import SignedMessage
from fedboard.server.fleet.rounds.trusted_rounds import OnProgress
from fedboard.server.runtime import Traffic

_SLACK_BYTES = 1 << 17
"""Of a sealed reply, beyond the protocol's own bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedStep:
    """What one step was and cost; for the log, not for publication."""

    contributions: bool
    """Whether it asked for what clients give."""
    asked: int
    answered: int
    """Nodes whose reply was taken."""
    bytes_up: int
    bytes_down: int
    """To all nodes; what was sent again is not counted."""
    seconds: float


@dataclass(slots=True, kw_only=True)
class Carrier:
    """Carries one session. Its name and the key that replies are sealed to are fresh, and in memory only."""

    roster: Roster
    pace: Pace
    signs: QuestionKey
    """Signs each step."""
    protocol: AggregationProtocol
    """Its name and parameters are told to clients."""
    run: str
    board: Board
    nodes: Mapping[int, Node]
    """Those that the session was opened with, by Flower's number."""
    largest: int
    """Most bytes of the protocol's own in a reply."""
    refused: Counter[Refusal]
    """Counts what was not taken."""
    on_progress: OnProgress | None = None
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

    def carry(self, step: OpenStep) -> CarriedStep:
        """One step: out to all that are asked, and back."""
        board = bytes(self.board.to_bytes()) if step.asks_contributions else None
        asked = {key: node for key, node in self.nodes.items() if node.name in step.asked}
        steps = {
            key: self._step(step.number, step.messages[node.name]).to_bytes() for key, node in asked.items()
        }
        frames = {
            key: SignedMessage(key=self.signs, message=said, beside=board) for key, said in steps.items()
        }
        before = self._up.total()
        exchange = self.roster.exchange(largest=self.largest + _SLACK_BYTES)

        def send(nodes: list[int], seconds: float) -> None:
            said = {node: frames[node].lasting(seconds) for node in nodes}
            exchange.send(said, beside=board, kind=STEP, group=str(self.board.version), seconds=seconds)

        def take(node: Node, content: bytes) -> None:
            step.take(node.name, self._opened(content, step.number))
            self._up[node.name] += len(content)

        seconds = self._ask(
            asked,
            Asking(
                roster=self.roster,
                exchange=exchange,
                send=send,
                take=take,
                complete=partial(self._complete, set(asked)),
                pace=self.pace,
                again=lambda: len(step.taken) < min(self.roster.job.rounds.quorum, len(asked)),
                attempts=self.roster.job.rounds.attempts,
                newcomers=False,
                progress=self._report,
                refused=self.refused,
                declined=self._declined,
            ),
        )
        down = [len(said) + ENVELOPE_BYTES + len(board or b"") for said in steps.values()]
        self._down += max(down, default=0)
        return CarriedStep(
            contributions=board is not None,
            asked=len(asked),
            answered=len(step.taken),
            bytes_up=self._up.total() - before,
            bytes_down=sum(down),
            seconds=seconds,
        )

    def _ask(self, asked: Mapping[int, Node], asking: Asking) -> float:
        began = time.monotonic()
        asking.run(dict(asked), seconds=self.roster.job.seconds_of_step)
        return time.monotonic() - began

    def _step(self, number: int, message: bytes) -> StepMessage:
        return StepMessage(
            run=self.run,
            round=self.board.version,
            board_digest=self.board.digest,
            session=self._session,
            number=number,
            protocol=self.protocol.name,
            parameters=self.protocol.parameters,
            private_noise=self.roster.job.privacy.noise == "secure",
            reply_key=self._key.public,
            message=message,
        )

    def _complete(self, asked: set[int], settled: set[int], present: set[int], seconds: float) -> bool:
        """All are settled, or all that are still there and the others have not come back for a while."""
        grace = self.roster.job.rounds.grace_seconds
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

    def _report(self, done: int) -> None:
        if self.on_progress is not None:
            self.on_progress("nodes", done, len(self.nodes))
