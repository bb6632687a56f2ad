"""A server's side of a session, carried by hand to devices of which each may be looked at in between."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedboard.common.board import Board
from fedboard.common.contribution import Request
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import is_sealed
from fedboard.common.messages.step import StepMessage, reply_of
from fedboard.common.protocol import AggregationProtocol, ExactSums, ServerSession
from tests.client.asking import KEY, signed

Reply = Callable[[bytes, bytes | None], bytes]
"""What a device sends: (step, board beside it) -> bytes as they travel."""
LIMIT = 1 << 24


def a_step(board: Board, rules: AggregationProtocol, **changes: Any) -> StepMessage:
    """The usual step about a board, with something in it changed."""
    usual: dict[str, Any] = {
        "run": "movies",
        "round": board.version,
        "board_digest": board.digest,
        "session": bytes(16),
        "number": 0,
        "protocol": rules.name,
        "parameters": rules.parameters,
        "private_noise": True,
        "reply_key": KEY.public,
        "message": b"",
    }
    return StepMessage(**{**usual, **changes})


def opened(content: bytes, step: StepMessage) -> bytes:
    """The protocol's reply."""
    frame = KEY.open(content, about=step.sealed_about) if is_sealed(content) else content
    return reply_of(frame, limit=LIMIT)


def code_of(content: bytes, step: StepMessage) -> Refusal | None:
    """The code of a refusal; None where it is an answer."""
    try:
        opened(content, step)
    except RefusedError as error:
        return error.code
    return None


@dataclass(kw_only=True)
class Session:
    """One session."""

    board: Board
    protocol: AggregationProtocol
    requests: tuple[Request, ...]
    devices: Mapping[str, Reply]
    changes: dict[str, Any] = field(default_factory=dict)
    """Of every step."""
    number: int = 0
    server: ServerSession = field(init=False)
    over: bool = False

    def __post_init__(self) -> None:
        self.server = self.protocol.open(
            self.step(b"").about,
            self.requests,
            list(self.devices),
            n_items=self.board.catalogue.n_items,
        )

    def step(self, message: bytes) -> StepMessage:
        """The step that is on."""
        return a_step(self.board, self.protocol, number=self.number, message=message, **self.changes)

    @property
    def board_beside(self) -> bytes | None:
        """The board, where the step asks for contributions."""
        return bytes(self.board.to_bytes()) if self.server.asks_contributions else None

    def message_to(self, name: str) -> StepMessage:
        """What a device is sent in the step that is on."""
        return self.step(self.server.outgoing()[name])

    def take(self, without: tuple[str, ...] = ()) -> dict[str, Refusal]:
        """Carry the step that is on; who refused, with which code."""
        refused = {}
        for name in self.server.outgoing():
            if name in without:
                continue
            step = self.message_to(name)
            sent = self.devices[name](signed(step.to_bytes(), self.board_beside), self.board_beside)
            try:
                self.server.take(name, opened(sent, step))
            except RefusedError as error:
                refused[name] = error.code
        self.over = not self.server.proceed()
        self.number += 1
        return refused

    def until_contributions(self) -> None:
        """Carry the steps before the one that asks for them."""
        while not self.server.asks_contributions:
            assert self.take() == {}

    def finish(self, without: tuple[str, ...] = ()) -> ExactSums:
        """Carry what is left."""
        while not self.over:
            assert self.take(without) == {}
        return self.server.sums()


__all__ = ["LIMIT", "Reply", "Session", "a_step", "code_of", "opened"]
