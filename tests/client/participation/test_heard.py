"""A device hears of each refusal once, whatever it was asked and wherever it stopped."""

from dataclasses import replace

import pytest

from fedboard.client.participation.steps import Client, MemoryVault, respond_to
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.rounds.question import ROUND, STEP, refusal
from fedboard.common.rounds.step import StepMessage
from tests.client import sessions
from tests.client.asking import asking, opened, reply_to, signed
from tests.client.participation.test_rounds import BOARD, Device
from tests.client.participation.test_steps import PROTOCOL, Wayward

STEP_ZERO = sessions.a_step(BOARD, PROTOCOL)
SECRET = "she-rated-item-7-with-a-5"
QUESTION = asking(BOARD)
SENT = signed(QUESTION.content)


def told_by(
    device: Device | Wayward, kind: str, content: bytes, board: bytes | None = None
) -> tuple[bytes, list[Refusal]]:
    """What the device sends, and what it hears of."""
    heard = list[Refusal]()
    client = Client(source=device, gate=device, vault=MemoryVault(), heard=heard.append)
    return respond_to(kind, content, board, client), heard


def test_an_answer_is_that_of_the_gate_behind_it() -> None:
    sent, heard = told_by(Device(), ROUND, SENT)

    content = opened(sent, QUESTION)
    assert content == reply_to(QUESTION, source=Device(), gate=Device())
    assert content not in sent
    assert heard == []


@pytest.mark.parametrize(
    ("device", "content", "heard"),
    [
        (Device(broken={"admit": RefusedError(Refusal.OVER_LIMIT)}), SENT, [Refusal.OVER_LIMIT]),
        (Device(broken={"commit": RefusedError(Refusal.OVER_LIMIT)}), SENT, [Refusal.OVER_LIMIT]),
        (Device(broken={"cohort": OSError(SECRET)}), SENT, []),
        (Device(broken={"recall": OSError(SECRET)}), SENT, [Refusal.INTERNAL]),
        (Device(), signed(b"no question"), [Refusal.MALFORMED]),
        (Device(), b"", [Refusal.UNSIGNED]),
    ],
    # Named here: a signed question's own bytes hold the time and differ from process to process.
    ids=["not admitted", "not booked", "no ratings", "not recalled", "no question", "nothing"],
)
def test_each_refusal_is_heard_once(device: Device, content: bytes, heard: list[Refusal]) -> None:
    assert told_by(device, ROUND, content)[1] == heard


@pytest.mark.parametrize(("kind", "board"), [(ROUND, b"board"), ("query.run-this", None)])
def test_a_kind_that_is_none_is_refused_before_anything_is_read(kind: str, board: bytes | None) -> None:
    device = Device()

    assert told_by(device, kind, SENT, board) == (refusal(Refusal.MALFORMED), [Refusal.MALFORMED])
    assert device.events == []


@pytest.mark.parametrize(
    ("device", "step", "code"),
    [
        (Wayward(broken={"protocol": RefusedError(Refusal.TOO_FEW)}), STEP_ZERO, Refusal.TOO_FEW),
        (Wayward(broken={"welcome": RefusedError(Refusal.WRONG_ROUND)}), STEP_ZERO, Refusal.WRONG_ROUND),
        (Wayward(broken={"welcome": OSError(SECRET)}), STEP_ZERO, Refusal.INTERNAL),
        (Wayward(), STEP_ZERO, Refusal.MALFORMED),
        (Wayward(), replace(STEP_ZERO, number=1), Refusal.NO_SESSION),
    ],
)
def test_a_step_that_is_refused_is_a_code_and_heard_once(
    device: Wayward, step: StepMessage, code: Refusal
) -> None:
    sent, heard = told_by(device, STEP, signed(step.to_bytes()))

    assert heard == [code]
    assert SECRET.encode() not in sent
