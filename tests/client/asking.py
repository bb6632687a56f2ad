"""Questions with a key that the tests hold, and what comes back, out of its envelope."""

from dataclasses import replace
from typing import Any

from fedboard.client.participation.rounds import Asker, Gate, RatingSource, respond
from fedboard.common.board import Board
from fedboard.common.messages.question import Question
from fedboard.common.messages.sealing import Envelope, ReplyKey, is_sealed
from fedboard.common.messages.signing import QuestionKey

KEY = ReplyKey()
SERVER = QuestionKey()
"""The key that the tests' server signs its questions with."""
ASKER = Asker(server=SERVER.public)
SECONDS = 3600.0


def asking(board: Board, **changes: Any) -> Question:
    """The usual question about a board, with something in it changed."""
    usual: dict[str, Any] = {
        "run": "run-1",
        "protocol": "trusted",
        "form": "factored",
        "private_noise": True,
        "reply_key": KEY.public,
    }
    return Question(board=board, **{**usual, **changes})


def signed(message: bytes, beside: bytes | None = None) -> bytes:
    """A question, or a step and the board beside it, as the server sends it."""
    return SERVER.sign(message, seconds=SECONDS, beside=beside)


def sealed(reply: bytes, question: Question) -> bytes:
    """A reply as it travels to whoever asked."""
    return Envelope.to(question.reply_key, about=question.about).seal(reply)


def opened(content: bytes, question: Question) -> bytes:
    """What is in the envelope; what came without one as it is."""
    return KEY.open(content, about=question.about) if is_sealed(content) else content


def reply_to(question: Question, *, source: RatingSource, gate: Gate) -> bytes:
    """What a device says to a question, whoever's key is in it; not sealed."""
    asked = replace(question, reply_key=KEY.public)
    return opened(respond(signed(asked.content), source=source, gate=gate), asked)


__all__ = ["ASKER", "KEY", "SERVER", "asking", "opened", "reply_to", "sealed", "signed"]
