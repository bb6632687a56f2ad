"""A step as it travels: what went in comes out, what is none is a code, and replies belong to one step alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedboard.common.messages.frame import pack_frame
from fedboard.common.messages.question import refusal
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import Envelope, ReplyKey
from fedboard.common.messages.step import SESSION_BYTES, StepMessage, reply_frame, reply_of
from tests.common.algorithms.conftest import a_prepared_board, a_task
from tests.refusals import refused

BOARD = a_prepared_board(a_task())
KEY = ReplyKey()
STEP = StepMessage(
    run="movies",
    round=BOARD.version,
    board_digest=BOARD.digest,
    session=bytes(range(SESSION_BYTES)),
    number=2,
    protocol="secure-sum",
    parameters={"survivors": 3, "dropout": 0.3, "nested": {"b": [1, 2], "a": None}},
    private_noise=True,
    reply_key=KEY.public,
    message=b"masks, please",
)
FIELDS: dict[str, Any] = {
    "run": "movies",
    "round": 1,
    "board_digest": "00",
    "session": "00" * SESSION_BYTES,
    "number": 0,
    "protocol": "secure-sum",
    "parameters": {},
    "private_noise": True,
    "reply_key": "00" * 32,
}
MESSAGE = {"message": np.zeros(3, dtype=np.uint8)}


def code_of(content: bytes) -> Refusal:
    return refused(StepMessage.from_bytes, content)


def test_a_step_comes_out_as_it_went_in() -> None:
    read = StepMessage.from_bytes(STEP.to_bytes())

    assert read == STEP
    assert read.about == STEP.about
    assert read.sealed_about == STEP.sealed_about
    assert StepMessage.from_bytes(replace(STEP, message=b"").to_bytes()).message == b""


@pytest.mark.parametrize(
    "change",
    [
        {"run": "films"},
        {"round": 7},
        {"board_digest": "other"},
        {"session": bytes(SESSION_BYTES)},
        {"protocol": "distributed-dp"},
        {"parameters": {**STEP.parameters, "survivors": 2}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_is_stated_otherwise_makes_another_session(change: dict[str, Any]) -> None:
    assert replace(STEP, **change).about != STEP.about


def test_a_reply_to_one_step_is_none_to_another() -> None:
    sealed = Envelope.to(STEP.reply_key, about=STEP.sealed_about).seal(reply_frame(b"x"))

    assert reply_of(KEY.open(sealed, about=STEP.sealed_about), limit=10) == b"x"
    with pytest.raises(RefusedError):
        KEY.open(sealed, about=replace(STEP, number=3).sealed_about)


@pytest.mark.parametrize(
    "change",
    [
        *({"session": session} for session in ("zz" * SESSION_BYTES, "00")),
        *({"number": number} for number in (-1, 1 << 40)),
        {"round": -1},
        {"reply_key": "x"},
        {"private_noise": 1},
        {"parameters": [1]},
        {"more": 1},
    ],
    ids=str,
)
def test_a_field_that_is_none_is_refused(change: dict[str, Any]) -> None:
    StepMessage.from_bytes(pack_frame("step", FIELDS, MESSAGE))
    assert code_of(pack_frame("step", {**FIELDS, **change}, MESSAGE)) is Refusal.MALFORMED


def test_a_field_that_is_missing_is_refused() -> None:
    for left_out in FIELDS:
        fields = {name: value for name, value in FIELDS.items() if name != left_out}
        assert code_of(pack_frame("step", fields, MESSAGE)) is Refusal.MALFORMED, left_out


def test_it_carries_the_protocols_bytes_and_nothing_else() -> None:
    three = np.zeros(3, dtype=np.uint8)
    for arrays in (
        {},
        {"message": three.astype(np.int16)},
        {"message": three[None]},
        {"other": three},
        {**MESSAGE, "other": three},
    ):
        assert code_of(pack_frame("step", FIELDS, arrays)) is Refusal.MALFORMED


def test_a_step_that_is_too_large_or_another_message_is_refused() -> None:
    assert code_of(bytes(StepMessage.MAX_BYTES + 1)) is Refusal.TOO_LARGE
    assert code_of(pack_frame("question", FIELDS, MESSAGE)) is Refusal.MALFORMED


def test_with_the_board_beside_it_it_is_a_question() -> None:
    question = STEP.question(bytes(BOARD.to_bytes()))

    assert (question.run, question.protocol, question.private_noise) == ("movies", "secure-sum", True)
    assert question.board.digest == BOARD.digest


@pytest.mark.parametrize(
    ("step", "board", "code"),
    [
        (STEP, b"", Refusal.BAD_BOARD),
        (STEP, bytes(BOARD.to_bytes())[:-8], Refusal.BAD_BOARD),
        (replace(STEP, round=BOARD.version + 1), bytes(BOARD.to_bytes()), Refusal.WRONG_ROUND),
        (replace(STEP, board_digest="other"), bytes(BOARD.to_bytes()), Refusal.WRONG_BOARD),
    ],
    ids=["empty", "cut", "round", "digest"],
)
def test_a_board_that_is_not_the_steps_is_refused(step: StepMessage, board: bytes, code: Refusal) -> None:
    assert refused(step.question, board) is code


def test_a_reply_is_bytes_or_a_code() -> None:
    assert reply_of(reply_frame(b"masked"), limit=6) == b"masked"
    for content, code in [
        (refusal(Refusal.OVER_LIMIT), Refusal.OVER_LIMIT),
        (pack_frame("reply", {"note": 1}, MESSAGE), Refusal.MALFORMED),
        (pack_frame("reply", {}, {"other": MESSAGE["message"]}), Refusal.MALFORMED),
        (pack_frame("answer", {}, MESSAGE), Refusal.MALFORMED),
        (reply_frame(bytes(1 << 17)), Refusal.TOO_LARGE),
    ]:
        assert refused(reply_of, content, limit=6) is code
