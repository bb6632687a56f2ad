"""One step of a protocol's session as it travels: the server's message to one client, and what comes back.

A session of several steps asks for contributions in one of them only; the board travels beside that step's
message, so that one copy of it serves all clients. What a step says besides is public or the protocol's own.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedboard.common.messages.frame import NoFields, Shapes, pack_frame, unpack_frame
from fedboard.common.messages.question import Answer, Question, board_of_round, refused_in
from fedboard.common.messages.refusals import Refusal, RefusedError

SESSION_BYTES = 16
_MOST_STEPS = 64
_REPLY = "reply"
_MESSAGE: Shapes = {"message": ("u1", (None,))}
_SLACK_BYTES = 1 << 16
"""Room for headers."""


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: str
    round: int
    board_digest: str
    session: str
    number: int
    protocol: str
    parameters: dict[str, Any]
    private_noise: bool
    reply_key: str


@dataclass(frozen=True, kw_only=True, repr=False)
class StepMessage:
    """The server's message to one client in one step of a session."""

    KIND: ClassVar[str] = "step"
    MAX_BYTES: ClassVar[int] = 1 << 24

    run: str
    """Unique among all runs, for ever."""
    round: int
    """Version of the board that is asked about."""
    board_digest: str
    session: bytes
    """16 bytes, fresh for each session: a round that is begun anew is another session."""
    number: int
    """Of the step, from 0."""
    protocol: str
    parameters: Mapping[str, Any]
    """Of the protocol; public."""
    private_noise: bool
    """Whether the server states that nobody can reproduce its noise."""
    reply_key: bytes
    """Public half of the key that replies are sealed to, see ``fedboard.common.messages.sealing``."""
    message: bytes
    """The protocol's own."""

    @cached_property
    def about(self) -> bytes:
        """What the session is about: run, round, board, protocol with all its parameters, and the session itself.

        Clients to whom a server states other parameters are in other sessions, whose keys do not fit together.
        """
        stated = json.dumps(dict(self.parameters), sort_keys=True).encode()
        parts = [self.run, str(self.round), self.board_digest, self.session.hex(), self.protocol]
        parts.append(hashlib.sha256(stated).hexdigest())
        return "\n".join(parts).encode(errors="surrogatepass")

    @property
    def sealed_about(self) -> bytes:
        """What a reply to this step must be about."""
        return self.about + f"\n{self.number}".encode()

    def to_bytes(self) -> bytes:
        """The message as it travels."""
        fields = {name: getattr(self, name) for name in _Fields.__struct_fields__}
        fields |= {"session": self.session.hex(), "parameters": dict(self.parameters)}
        fields |= {"reply_key": self.reply_key.hex()}
        message = np.frombuffer(self.message, dtype=np.uint8)
        return pack_frame(self.KIND, fields, {"message": message})

    @classmethod
    def from_bytes(cls, content: bytes | memoryview) -> "StepMessage":
        """Read a step.

        Raises:
            RefusedError: not one.
        """
        frame = unpack_frame(content, kinds=(cls.KIND,), limit=cls.MAX_BYTES)
        fields = frame.read(_Fields)
        try:
            session, reply_key = bytes.fromhex(fields.session), bytes.fromhex(fields.reply_key)
        except ValueError:
            raise RefusedError(Refusal.MALFORMED) from None
        if len(session) != SESSION_BYTES or not 0 <= fields.number < _MOST_STEPS or fields.round < 0:
            raise RefusedError(Refusal.MALFORMED)
        stated = msgspec.structs.asdict(fields) | {"session": session, "reply_key": reply_key}
        return cls(**stated, message=frame.arrays_as(_MESSAGE)[0].tobytes())

    def question(self, board: bytes) -> Question:
        """The question that this step and the board beside it make.

        Args:
            board: from a server that need not be honest.

        Raises:
            RefusedError: the board cannot be read, or is not the one that the step names.
        """
        return Question(
            run=self.run,
            protocol=self.protocol,
            form="",
            board=board_of_round(
                np.frombuffer(board, dtype=np.uint8), version=self.round, digest=self.board_digest
            ),
            private_noise=self.private_noise,
            reply_key=self.reply_key,
        )


def reply_frame(reply: bytes) -> bytes:
    """A client's reply to a step, before it is sealed."""
    return pack_frame(_REPLY, {}, {"message": np.frombuffer(reply, dtype=np.uint8)})


def reply_of(content: bytes, *, limit: int) -> bytes:
    """The protocol's bytes in a reply.

    Args:
        content: from a client that need not be honest, out of its envelope.
        limit: most bytes that are taken.

    Raises:
        RefusedError: not a reply, or a refusal, whose code it then has.
    """
    frame = unpack_frame(content, kinds=(_REPLY, Answer.REFUSAL), limit=limit + _SLACK_BYTES)
    if frame.kind == Answer.REFUSAL:
        raise refused_in(frame)
    frame.read(NoFields)
    return frame.arrays_as(_MESSAGE)[0].tobytes()
