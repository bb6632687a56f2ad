"""The Flower side of a device: bytes in, bytes out, and no text of its failures on the way back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from flwr.app import Context, Message, RecordDict

from fedboard.client.fleet import client_app
from fedboard.client.fleet.answering_app import make_client_app
from fedboard.common.rounds.flower_parts import frame_of, record_of
from fedboard.common.rounds.question import ROUND, STEP, Answer, refusal
from fedboard.common.rounds.step import StepMessage
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.simulations.flower.local_grid import LocalGrid
from tests.client import sessions
from tests.client.answering.test_rounds import BOARD, Device
from tests.client.answering.test_steps import PROTOCOL, Wayward
from tests.client.asking import asking, opened, reply_to, signed

STEP_ZERO = sessions.a_step(BOARD, PROTOCOL)
SECRET = "she-rated-item-7-with-a-5"
QUESTION = asking(BOARD)
SENT = signed(QUESTION.content)


def told_by(app: Any, content: RecordDict, kind: str = ROUND) -> Message:
    """What comes back from the one node of this app."""
    grid = LocalGrid(app, 1, {})
    with grid.running():
        (reply,) = grid.pull_messages(grid.push_messages([Message(content, 1, kind, ttl=60.0, group_id="1")]))
    return reply


def bytes_of(reply: Message) -> bytes:
    assert not reply.has_error()
    content = frame_of(reply.content)
    assert content is not None
    return content


def opened_by(opening: Callable[[], Any], closing: Callable[[], Any], device: Device) -> Any:
    @contextmanager
    def opened(context: Context) -> Iterator[tuple[Device, Device]]:
        opening()
        yield device, device
        closing()

    return opened


def fine() -> None:
    """Nothing happens."""


def fails() -> None:
    raise OSError(SECRET)


def test_an_answer_travels_as_the_bytes_that_it_is() -> None:
    app = make_client_app(opened_by(fine, fine, Device()))

    sent = bytes_of(told_by(app, record_of(SENT)))

    content = opened(sent, QUESTION)
    assert content == reply_to(QUESTION, source=Device(), gate=Device())
    assert content not in sent
    assert Answer.from_bytes(content, limit=1 << 24).run == "run-1"


@pytest.mark.parametrize(("opening", "closing"), [(fails, fine), (fine, fails)], ids=["opening", "closing"])
def test_a_device_that_cannot_be_opened_or_closed_says_a_code(
    opening: Callable[[], None], closing: Callable[[], None]
) -> None:
    app = make_client_app(opened_by(opening, closing, Device()))

    assert bytes_of(told_by(app, record_of(SENT))) == refusal(Refusal.INTERNAL)


@pytest.mark.parametrize(
    ("device", "content", "heard"),
    [
        (Device(), SENT, []),
        (Device(broken={"admit": RefusedError(Refusal.OVER_LIMIT)}), SENT, [Refusal.OVER_LIMIT]),
        (Device(broken={"commit": RefusedError(Refusal.OVER_LIMIT)}), SENT, [Refusal.OVER_LIMIT]),
        (Device(broken={"cohort": OSError(SECRET)}), SENT, []),
        (Device(broken={"recall": OSError(SECRET)}), SENT, [Refusal.INTERNAL]),
        (Device(), signed(b"no question"), [Refusal.MALFORMED]),
        (Device(), None, [Refusal.MALFORMED]),
    ],
    # Named here: a signed question's own bytes hold the time and differ from process to process.
    ids=["fine", "not admitted", "not booked", "no ratings", "not recalled", "no question", "nothing"],
)
def test_each_refusal_is_heard_once(device: Device, content: bytes | None, heard: list[Refusal]) -> None:
    found: list[Refusal] = []
    app = make_client_app(opened_by(fine, fine, device), refused=found.append)

    told_by(app, RecordDict() if content is None else record_of(content))

    assert found == heard


def test_a_device_that_cannot_be_opened_is_heard_as_a_refusal() -> None:
    found: list[Refusal] = []

    told_by(make_client_app(opened_by(fails, fine, Device()), refused=found.append), record_of(SENT))

    assert found == [Refusal.INTERNAL]


def test_kernels_that_cannot_be_found_out_are_a_code() -> None:
    def kernels(context: Context) -> str:
        raise KeyError(SECRET)

    app = make_client_app(opened_by(fine, fine, Device()), kernels=kernels)

    assert bytes_of(told_by(app, record_of(SENT))) == refusal(Refusal.INTERNAL)


def test_the_device_is_open_while_it_answers_and_closed_after() -> None:
    device = Device()
    opening, closing = (lambda: device.events.append("open")), (lambda: device.events.append("close"))

    told_by(make_client_app(opened_by(opening, closing, device)), record_of(SENT))

    assert device.events == ["open", "recall", "admit", "cohort", "commit", "close"]


def test_a_record_without_a_question_opens_nothing() -> None:
    device = Device()
    app = make_client_app(opened_by(lambda: device.events.append("open"), fine, device))

    assert bytes_of(told_by(app, RecordDict())) == refusal(Refusal.MALFORMED)
    assert device.events == []


@pytest.mark.parametrize(
    ("device", "content", "code"),
    [
        (Wayward(broken={"protocol": RefusedError(Refusal.TOO_FEW)}), STEP_ZERO, Refusal.TOO_FEW),
        (Wayward(broken={"welcome": RefusedError(Refusal.WRONG_ROUND)}), STEP_ZERO, Refusal.WRONG_ROUND),
        (Wayward(broken={"welcome": OSError(SECRET)}), STEP_ZERO, Refusal.INTERNAL),
        (Wayward(), STEP_ZERO, Refusal.MALFORMED),
        (Wayward(), replace(STEP_ZERO, number=1), Refusal.NO_SESSION),
        (Wayward(), None, Refusal.MALFORMED),
    ],
)
def test_a_step_that_is_refused_is_a_code_and_heard_once(
    device: Wayward, content: StepMessage | None, code: Refusal
) -> None:
    found: list[Refusal] = []
    app = make_client_app(opened_by(fine, fine, device), refused=found.append)

    sent = bytes_of(
        told_by(app, RecordDict() if content is None else record_of(signed(content.to_bytes())), STEP)
    )

    assert found == [code]
    if content is None:
        assert sent == refusal(code)
    else:
        assert sessions.code_of(sent, content) is code
        assert SECRET.encode() not in sent


def test_a_device_without_its_file_says_nothing_about_it() -> None:
    """The app of a deployment; a simulated node has no such file, so it fails as a device would."""
    content = bytes_of(told_by(client_app.app, record_of(SENT)))

    assert content == refusal(Refusal.INTERNAL)
