"""How a client answers: within every bound and booked before it leaves, or with a code and nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.client.participation.rounds import Asker, Scale, respond
from fedboard.client.participation.status import REASONS
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution, Request
from fedboard.common.contribution_bounding.personal import require_personal_bounds, scale_contribution
from fedboard.common.messages.frame import pack_frame
from fedboard.common.messages.question import Answer, BookedRound, Question, refusal
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.messages.sealing import is_sealed
from fedboard.common.protocols.trusted import Trusted
from tests.client.asking import ASKER, asking, opened, signed
from tests.common.algorithms.conftest import (
    N_USERS,
    a_prepared_board,
    a_residual_task,
    a_task,
    population,
    residual_boards,
)

SECRET = "she-rated-item-7-with-a-5"
LIMIT = 1 << 24
TASK, RESIDUAL = a_task(), a_residual_task()
ASKED: list[tuple[Any, Board]] = [
    (TASK, TASK.first_board(a_prepared_board(TASK).catalogue)),
    (TASK, a_prepared_board(TASK)),
    *((RESIDUAL, board) for board in residual_boards(RESIDUAL)[:-1]),
]
NAMES = [f"{task.NAME}-{board.version}" for task, board in ASKED]
BOARD = ASKED[1][1]


@dataclass
class Device:
    """Ratings in memory and a gate that lets everything through; it writes down what happens to it."""

    ratings: Cohort = field(default_factory=population)
    scale: Scale = 1.0
    kept: dict[tuple[str, int, str], bytes] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    broken: dict[str, Exception] = field(default_factory=dict)
    noted: list[Refusal] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    asker: Asker = ASKER

    def _comes(self, event: str) -> None:
        self.events.append(event)
        if event in self.broken:
            raise self.broken[event]

    @property
    def n_users(self) -> int:
        return self.ratings.n_users

    def cohort(self, board: Board) -> Cohort:
        self._comes("cohort")
        return self.ratings

    def recall(self, question: Question, requests: Sequence[Request]) -> bytes | None:
        self._comes("recall")
        return self.kept.get((question.run, question.round, question.board.digest))

    def admit(self, question: Question, board: Board, requests: Sequence[Request]) -> Scale:
        self._comes("admit")
        return self.scale

    def hold(self, booked: BookedRound, signed: bytes) -> bytes:
        self._comes("hold")
        return b""

    def note(self, code: Refusal) -> None:
        self.noted.append(code)

    def failed(self, error: Exception) -> None:
        self.failures.append(error)

    def commit(self, question: Question, requests: Sequence[Request], scale: Scale, answer: bytes) -> None:
        self._comes("commit")
        self.kept[question.run, question.round, question.board.digest] = answer


def a_question(board: Board = BOARD, **change: Any) -> bytes:
    return signed(asking(**{"board": board, **change}).content)


def answered(content: bytes) -> Answer:
    return Answer.from_bytes(content, limit=LIMIT)


def rows_of(content: bytes) -> Contribution:
    return answered(content).rows


def code_of(content: bytes) -> Refusal:
    with pytest.raises(RefusedError) as refused:
        answered(content)
    assert content == refusal(refused.value.code)  # a code and nothing more
    return refused.value.code


def outcome_of(content: bytes) -> Answer | Refusal:
    """An answer where it is one, else its code."""
    try:
        return answered(content)
    except RefusedError as refused:
        return refused.code


def respond_of(device: Device, question: bytes) -> bytes:
    """What it says, out of its envelope."""
    return content_of(respond(question, source=device, gate=device), question)


def content_of(sent: bytes, question: bytes) -> bytes:
    return opened(sent, Question.from_bytes(ASKER.content(question))) if is_sealed(sent) else sent


def assert_same_rows(ours: Contribution, theirs: Contribution) -> None:
    for name in ("indptr", "items", "weights", "vectors", "responses"):
        one, other = getattr(ours, name), getattr(theirs, name)
        assert (one is None) == (other is None), name
        if one is not None:
            np.testing.assert_array_equal(one, other)
    for name, values in ours.totals.items():
        np.testing.assert_array_equal(values, theirs.totals[name])


@pytest.mark.parametrize(("task", "board"), ASKED, ids=NAMES)
def test_an_answer_holds_what_the_task_contributes(task: Any, board: Board) -> None:
    device = Device()

    answer = respond_of(device, a_question(board))

    read = answered(answer)
    assert (read.run, read.round, read.board_digest) == ("run-1", board.version, board.digest)
    assert (read.n_users, read.first_row) == (N_USERS, 0)
    assert_same_rows(task.contribute(population(), board, task.requests(board)), rows_of(answer))


def test_it_is_recalled_admitted_worked_out_and_committed_in_this_order() -> None:
    device = Device()

    respond_of(device, a_question())

    assert device.events == ["recall", "admit", "cohort", "commit"]


def test_the_same_question_gets_the_same_bytes_without_looking_at_the_ratings() -> None:
    device = Device()
    first = respond_of(device, a_question())
    device.events.clear()
    device.ratings = population(seed=9)

    assert respond_of(device, a_question()) == first
    assert device.events == ["recall"]
    assert respond_of(device, a_question(run="run-2")) != first


def test_the_same_answer_never_looks_the_same_on_its_way() -> None:
    device = Device()

    sent = [respond(a_question(), source=device, gate=device) for _ in range(3)]

    assert all(is_sealed(content) for content in sent)
    assert len({content_of(content, a_question()) for content in sent}) == 1
    parts = [content[start : start + 16] for content in sent for start in range(8, len(content), 16)]
    assert len(set(parts)) == len(parts)


def test_a_refusal_is_sealed_too_unless_the_question_could_not_be_read() -> None:
    refusing = Device(broken={"admit": RefusedError(Refusal.OVER_LIMIT)})

    sent = respond(a_question(), source=refusing, gate=refusing)

    assert is_sealed(sent)
    assert content_of(sent, a_question()) == refusal(Refusal.OVER_LIMIT)
    assert respond(signed(b"?"), source=refusing, gate=refusing) == refusal(Refusal.MALFORMED)


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33), bytes(32), b"\1" + bytes(31)])
def test_a_key_that_keeps_no_secret_gets_a_code_and_nothing_else(key: bytes) -> None:
    device = Device()

    assert respond(a_question(reply_key=key), source=device, gate=device) == refusal(Refusal.MALFORMED)
    assert (device.events, device.noted) == ([], [Refusal.MALFORMED])


@pytest.mark.slow
@pytest.mark.parametrize("event", ["recall", "admit", "commit"])
@pytest.mark.parametrize("code", list(Refusal))
def test_a_refusal_passes_as_its_code(event: str, code: Refusal) -> None:
    device = Device(broken={event: RefusedError(code)})

    assert code_of(respond_of(device, a_question())) is code
    assert not device.kept


@pytest.mark.parametrize("event", ["recall", "admit", "commit"])
@pytest.mark.parametrize(
    "error", [RuntimeError, ValueError, KeyError, OSError, MemoryError, AssertionError, RecursionError]
)
def test_the_text_of_a_failure_stays_on_the_device(event: str, error: Callable[[str], Exception]) -> None:
    device = Device(broken={event: error(SECRET)})

    content = respond_of(device, a_question())

    assert code_of(content) is Refusal.INTERNAL
    assert SECRET.encode() not in content
    assert device.noted == [Refusal.INTERNAL]
    assert not device.kept


def test_nothing_is_sent_that_could_not_be_booked() -> None:
    device = Device(broken={"commit": RefusedError(Refusal.OVER_LIMIT)})

    content = respond_of(device, a_question())

    assert device.events[-1] == "commit"
    assert code_of(content) is Refusal.OVER_LIMIT
    assert len(content) < 128


SCALES = [0.5, 1 / 4096, 3 / 4096, np.linspace(1, 4096, N_USERS).round() / 4096]


@pytest.mark.parametrize(("task", "board"), ASKED, ids=NAMES)
@pytest.mark.parametrize("scale", SCALES, ids=["half", "least", "little", "each her own"])
def test_each_row_gives_her_part_to_the_last_bit(task: Any, board: Board, scale: Scale) -> None:
    requests = task.requests(board)
    each = np.broadcast_to(np.asarray(scale, dtype=np.float64), (N_USERS,))

    rows = rows_of(respond_of(Device(scale=scale), a_question(board)))

    require_personal_bounds(rows, requests, each)
    expected = scale_contribution(task.contribute(population(), board, requests), requests, each)
    assert_same_rows(expected, rows)
    with pytest.raises(Exception, match="own epsilon"):  # and no more than her part would pass
        require_personal_bounds(task.contribute(population(), board, requests), requests, each)


@pytest.mark.parametrize(
    "scale", [0.0, -0.5, 1.5, np.nan, np.inf, 0.3, np.ones(3), np.array([[0.5]] * 3), np.zeros(N_USERS)]
)
def test_a_part_that_is_none_gives_nothing(scale: Scale) -> None:
    device = Device(scale=scale)

    assert code_of(respond_of(device, a_question())) is Refusal.INTERNAL
    assert not device.kept


def test_a_device_without_ratings_or_without_rows_answers_too() -> None:
    nobody = population().rows(4, 4)
    empty = population().rows(0, 1)  # who has no ratings

    assert answered(respond_of(Device(ratings=nobody), a_question())).n_users == 0
    assert answered(respond_of(Device(ratings=empty), a_question())).n_users == 1


HOSTILE_RATINGS = [np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-42]


@pytest.mark.slow
@pytest.mark.parametrize("rating", HOSTILE_RATINGS)
@pytest.mark.parametrize(("task", "board"), ASKED, ids=NAMES)
def test_ratings_that_no_file_would_hold_are_answered_within_the_bounds(
    task: Any, board: Board, rating: float
) -> None:
    ratings = population().ratings.copy()
    ratings[::3] = rating

    content = respond_of(Device(ratings=replace(population(), ratings=ratings)), a_question(board))

    outcome = outcome_of(content)
    assert isinstance(outcome, Answer)  # whatever the ratings are
    assert Trusted().combine([outcome.rows], task.requests(board)).rejected_rows == 0


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"form": "sparse"}, Refusal.WRONG_FORM),
        ({"form": "dense "}, Refusal.WRONG_FORM),
        ({"protocol": "sum-without-noise"}, Refusal.WRONG_FORM),
        ({"board": replace(BOARD, task="steal")}, Refusal.BAD_BOARD),
        ({"board": replace(BOARD, config={**BOARD.config, "rank": "4"})}, Refusal.BAD_BOARD),
        ({"board": replace(BOARD, config={**BOARD.config, "more": 1, "rank": -1})}, Refusal.BAD_BOARD),
        ({"board": replace(BOARD, config={})}, Refusal.BAD_BOARD),
        ({"board": replace(BOARD, config={**BOARD.config, "noise_multipliers": {}})}, Refusal.BAD_BOARD),
        ({"board": replace(BOARD, version=TASK.settings.rounds + 1)}, Refusal.WRONG_ROUND),
        ({"board": replace(BOARD, version=10_000)}, Refusal.WRONG_ROUND),
    ],
)
def test_a_server_that_asks_for_something_else_gets_a_code(change: dict[str, Any], code: Refusal) -> None:
    device = Device()

    assert code_of(respond_of(device, a_question(**change))) is code
    assert "admit" not in device.events
    assert device.noted == [code]


ALTERED = [
    {"item_weights": np.full(25, np.nan)},
    {"item_weights": np.full(25, -1.0)},
    {"item_weights": np.full(25, 1e300)},
    {"item_weights": np.zeros(3)},
    {"item_factors": np.full((25, 4), np.nan, dtype=np.float32)},
    {"item_factors": np.full((25, 4), 1e30, dtype=np.float32)},
    {"item_factors": np.zeros((24, 4), dtype=np.float32)},
    {"item_factors": np.zeros(25, dtype=np.float32)},
    {"mean": np.array([np.nan])},
    {"mean": np.zeros(0)},
    {"item_scale": np.full(25, np.inf)},
    {"learnt": np.zeros(25, dtype=np.int64)},
]


@pytest.mark.parametrize("arrays", ALTERED, ids=lambda arrays: next(iter(arrays)))
def test_numbers_on_a_board_that_mean_harm_give_a_code_or_keep_the_bounds(arrays: dict[str, Any]) -> None:
    board = replace(BOARD, arrays={**BOARD.arrays, **arrays})

    with np.errstate(all="ignore"):
        content = respond_of(Device(), a_question(board))

    outcome = outcome_of(content)
    if isinstance(outcome, Answer):
        assert Trusted().combine([outcome.rows], TASK.requests(board)).rejected_rows == 0
    else:
        assert outcome is Refusal.BAD_BOARD


def test_a_board_without_its_arrays_gets_a_code() -> None:
    for name in BOARD.arrays:
        arrays = {key: values for key, values in BOARD.arrays.items() if key != name}
        outcome = outcome_of(respond_of(Device(), a_question(replace(BOARD, arrays=arrays))))

        assert isinstance(outcome, Answer) or outcome is Refusal.BAD_BOARD


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(content=st.one_of(st.binary(max_size=64), st.integers(0, len(asking(BOARD).content) - 1)))
def test_bytes_that_are_no_question_get_a_code(content: bytes | int) -> None:
    """Also from the server itself, which has signed them."""
    device = Device()

    question = content if isinstance(content, bytes) else asking(BOARD).content[:content]

    code = code_of(respond_of(device, signed(question)))
    assert code in (Refusal.MALFORMED, Refusal.BAD_BOARD)
    assert code_of(respond_of(device, question)) is Refusal.UNSIGNED
    assert (device.events, device.noted) == ([], [code, Refusal.UNSIGNED])


def test_an_answer_is_no_question() -> None:
    for content in (
        respond_of(Device(), a_question()),
        refusal(Refusal.LATE),
        pack_frame("question", {}, {}),
    ):
        assert code_of(respond_of(Device(), signed(content))) is Refusal.MALFORMED


def test_a_server_of_the_version_before_gets_a_code_that_says_so() -> None:
    """Its questions are signed as today's; what it could not read is how the answer is sealed."""
    device = Device()
    earlier = b"FBFRAME0" + asking(BOARD).content[8:]

    sent = respond(signed(earlier), source=device, gate=device)

    assert sent == refusal(Refusal.WRONG_VERSION)  # as it is, so that it can be read there
    assert (device.events, device.noted) == ([], [Refusal.WRONG_VERSION])
    assert "another format" in REASONS[Refusal.WRONG_VERSION]
