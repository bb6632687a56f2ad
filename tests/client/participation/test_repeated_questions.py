"""Who asks again: only the pinned server, only what today's policy allows, and only for a time.

Each attacker here has read the code, knows every question that was ever asked, and can reach the device.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.client.boards.cache import BoardCache
from fedboard.client.participation.policy import Policy
from fedboard.client.participation.records import DEFAULT_SECONDS, KeptAnswers
from fedboard.client.participation.rounds import Asker, respond
from fedboard.common.board import Board
from fedboard.common.messages.question import refusal
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import ReplyKey
from fedboard.common.messages.signing import CLOCK_SECONDS, LONGEST_SECONDS, QuestionKey
from fedboard.common.protocols.registry import sized_protocol
from tests.client.asking import ASKER, SERVER, opened, signed
from tests.client.certified_boards import RUN, Device, a_question, put, refused
from tests.client.participation.test_gate import NOT_ALLOWED
from tests.client.sessions import Session, code_of
from tests.common.algorithms.conftest import N_USERS, a_task

TASK = a_task(epsilon=5.0)
NOW = 1_800_000_000.0


@pytest.fixture
def device(tmp_path: Path) -> Callable[..., Device]:
    return lambda **fields: Device(tmp_path / "device", a_policy(**fields))


def a_policy(**fields: Any) -> Policy:
    return Policy(**{"epsilon": 8.0, "delta": 1e-5, "smallest_catalogue": 5, **fields})


def told(device: Device, content: bytes) -> bytes:
    return device.reply(content)


def code(asker: Asker, content: bytes, beside: bytes | None = None) -> Refusal | None:
    try:
        asker.content(content, beside)
    except RefusedError as error:
        return error.code
    return None


def later(seconds: float) -> Asker:
    """The same server, after some time."""
    return Asker(server=SERVER.public, clock=lambda: time.time() + seconds)


def answers_of(device: Device, asker: Asker) -> KeptAnswers:
    hours = device.policy.answers_kept_hours
    return KeptAnswers(device.folder / "answers", server=asker.id, seconds=hours * 3600, clock=asker.clock)


def files(device: Device) -> list[Path]:
    return sorted((device.folder / "answers").iterdir())


def test_a_kept_answer_is_not_for_whoever_asks_with_a_key_of_his_own(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    mine, thief, other = device(), ReplyKey(), QuestionKey()
    mine.ask(boards[0])
    asked = replace(a_question(boards[0]), reply_key=thief.public)

    assert told(mine, asked.content) == refusal(Refusal.UNSIGNED)
    assert told(mine, other.sign(asked.content, seconds=60)) == refusal(Refusal.BAD_SIGNATURE)
    # What the server signed, with his key in the place of its own.
    whole = signed(a_question(boards[0]).content)
    swapped = whole.replace(a_question(boards[0]).reply_key.hex().encode(), thief.public.hex().encode())
    assert len(swapped) == len(whole)
    assert swapped != whole
    assert told(mine, swapped) == refusal(Refusal.BAD_SIGNATURE)
    assert len(mine.booked()) == len(TASK.requests(boards[0]))


def test_nobody_but_the_pinned_server_is_answered_at_all(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    mine, question = device(), a_question(boards[0])

    assert told(mine, question.content) == refusal(Refusal.UNSIGNED)
    assert told(mine, QuestionKey().sign(question.content, seconds=60)) == refusal(Refusal.BAD_SIGNATURE)
    mine.asker = Asker(server=None)
    assert told(mine, signed(question.content)) == refusal(Refusal.BAD_SIGNATURE)
    assert mine.booked() == []
    assert mine.refusals() == {Refusal.UNSIGNED: 1, Refusal.BAD_SIGNATURE: 2}


def test_a_signature_of_a_board_or_of_bare_bytes_is_none_of_a_question(boards: list[Board]) -> None:
    """Whoever gets the same key to sign something else, such as a manifest, has no question."""
    private, content = Ed25519PrivateKey.generate(), a_question(boards[0]).content
    asker = Asker(server=QuestionKey(private).public)
    expiry = int(NOW).to_bytes(8, "little")
    for message in (content, b"fedboard-manifest-3\0" + content, expiry + content):
        forged = b"FBSIGN01" + expiry + private.sign(message) + content
        assert code(asker, forged) is Refusal.BAD_SIGNATURE


def test_the_signature_is_over_every_byte_of_a_question(boards: list[Board]) -> None:
    content = signed(a_question(boards[0]).content)
    places = [*range(400), *range(400, len(content), 97)]
    for place in places:
        changed = bytearray(content)
        changed[place] ^= 1
        assert code(ASKER, bytes(changed)) in (Refusal.BAD_SIGNATURE, Refusal.UNSIGNED), place
    assert code(ASKER, content) is None


def test_the_signature_is_over_the_board_beside_a_step() -> None:
    content, board = signed(b"a step", b"a board"), b"a board"

    assert code(ASKER, content, board) is None
    assert {code(ASKER, content, other) for other in (None, b"", b"a Board")} == {Refusal.BAD_SIGNATURE}
    assert code(ASKER, signed(b"a step"), b"") is Refusal.BAD_SIGNATURE


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (0.0, None),
        (-CLOCK_SECONDS, None),
        (60.0 + CLOCK_SECONDS - 1, None),
        (60.0 + CLOCK_SECONDS + 1, Refusal.EXPIRED),
        (1e9, Refusal.EXPIRED),
        (-LONGEST_SECONDS, Refusal.EXPIRED),
    ],
)
def test_an_old_question_cannot_be_replayed(after: float, expected: Refusal | None) -> None:
    content = SERVER.sign(b"question", seconds=60.0, clock=lambda: NOW)

    assert code(Asker(server=SERVER.public, clock=lambda: NOW + after), content) is expected


def test_a_question_without_end_cannot_be_signed_nor_is_it_taken() -> None:
    endless = SERVER.sign(b"question", seconds=1e12, clock=lambda: NOW)
    after = NOW + LONGEST_SECONDS + 1

    assert code(Asker(server=SERVER.public, clock=lambda: NOW), endless) is None
    assert code(Asker(server=SERVER.public, clock=lambda: after), endless) is Refusal.EXPIRED


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "expected"), NOT_ALLOWED)
def test_an_answer_that_the_policy_no_longer_allows_is_not_sent_again(
    policy: dict[str, Any], expected: Refusal, device: Callable[..., Device], boards: list[Board]
) -> None:
    mine = device()
    first = mine.ask(boards[0])
    assert mine.ask(boards[0]) == first
    booked = mine.booked()

    mine.policy = a_policy(**policy)

    assert mine.code(boards[0]) is expected
    assert mine.booked() == booked
    mine.policy = a_policy()
    assert mine.ask(boards[0]) == first


def test_a_board_that_was_withdrawn_is_not_answered_about_again(tmp_path: Path, boards: list[Board]) -> None:
    cache = BoardCache(tmp_path / "cache", max_bytes=1 << 20)
    put(cache, boards[0])
    mine = Device(tmp_path / "device", a_policy(published_only=True), cache=cache)
    assert mine.code(boards[0]) is None

    mine.cache = BoardCache(tmp_path / "another", max_bytes=1 << 20)

    assert mine.code(boards[0]) is Refusal.NOT_PUBLISHED


def test_a_kept_answer_ends_after_its_time_and_nothing_of_it_is_left(
    device: Callable[..., Device], boards: list[Board], tmp_path: Path
) -> None:
    mine = device(answers_kept_hours=0.5)
    mine.ask(boards[0])
    (kept,) = files(mine)
    (tmp_path / "same-file").hardlink_to(kept)
    mine.asker = later(1700.0)
    assert mine.code(boards[0]) is None

    mine.asker = later(1900.0)

    assert mine.code(boards[0]) is Refusal.ANSWERED_BEFORE
    assert answers_of(mine, mine.asker).expire() == 1
    assert files(mine) == []
    assert set((tmp_path / "same-file").read_bytes()) == {0}


def test_a_clock_that_goes_back_ends_a_kept_answer_rather_than_making_it_last(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    mine = device()
    mine.ask(boards[0])

    assert answers_of(mine, later(-3600.0)).expire() == 1


def test_what_still_lasts_stays_and_what_was_cut_short_goes(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    mine = device(epsilon=30.0)
    mine.ask(boards[0])
    mine.ask(boards[0], run="books")
    damaged, kept = files(mine)
    damaged.write_bytes(b"?")

    assert answers_of(mine, later(DEFAULT_SECONDS - 100)).expire() == 1
    assert files(mine) == [kept]


def test_another_server_that_is_pinned_later_gets_none_of_the_first_one_s_answers(
    device: Callable[..., Device], boards: list[Board]
) -> None:
    mine, second = device(), QuestionKey()
    mine.ask(boards[0])
    question = a_question(boards[0])

    mine.asker = Asker(server=second.public)

    with mine.opened() as gate:
        reply = respond(second.sign(question.content, seconds=60), source=mine.ratings, gate=gate)
    assert refused(opened(reply, question)) is Refusal.ANSWERED_BEFORE


def test_a_contribution_in_a_session_is_not_given_again_against_the_policy(
    tmp_path: Path, boards: list[Board]
) -> None:
    names = ("a", "b", "c", "d")
    rules = sized_protocol("secure-sum", clients=4, users=N_USERS, settings={"survivors": 3})
    devices = {name: Device(tmp_path / name, a_policy(epsilon=100.0)) for name in names}
    session = Session(
        board=boards[1],
        protocol=rules,
        requests=TASK.requests(boards[1]),
        devices={name: device.step for name, device in devices.items()},
        changes={"run": RUN},
    )
    session.until_contributions()
    step, board, mine = session.message_to("a"), session.board_beside, devices["a"]
    content = signed(step.to_bytes(), board)
    assert code_of(mine.step(content, board), step) is None
    assert code_of(mine.step(content, board), step) is None  # the server lost the reply

    mine.policy = a_policy(epsilon=100.0, published_only=True)
    assert code_of(mine.step(content, board), step) is Refusal.NOT_PUBLISHED
    mine.policy = a_policy(epsilon=100.0, runs=("books-*",))
    assert code_of(mine.step(content, board), step) is Refusal.NOT_ALLOWED


def test_sums_that_are_larger_than_the_device_makes_are_refused_before_any_is_made(
    tmp_path: Path, boards: list[Board]
) -> None:
    rules = sized_protocol("secure-sum", clients=4, users=N_USERS, settings={"survivors": 3})
    devices = {name: Device(tmp_path / name, a_policy(epsilon=100.0)) for name in ("a", "b", "c", "d")}
    devices["d"].asker = replace(ASKER, largest_answer=8)
    session = Session(
        board=boards[1],
        protocol=rules,
        requests=TASK.requests(boards[1]),
        devices={name: one.step for name, one in devices.items()},
        changes={"run": RUN},
    )
    session.until_contributions()

    assert session.take() == {"d": Refusal.TOO_LARGE}
    assert devices["d"].booked() == []
