"""Rows that cannot be computed: the answer goes out without them, so that no refusal depends on a rating."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedboard.client.participation import rounds as answering
from fedboard.client.participation.policy import Policy
from fedboard.common.arrays import FloatArray
from fedboard.common.board import Board
from fedboard.common.cohort import Cohort
from fedboard.common.contribution import Contribution
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.sums.row_bounds import only_rows
from tests.client.asking import signed
from tests.client.certified_boards import Device as CertifiedDevice
from tests.client.certified_boards import Ratings, certified_boards, refused
from tests.client.participation.test_rounds import (
    ASKED,
    BOARD,
    NAMES,
    SECRET,
    TASK,
    Device,
    a_question,
    answered,
    assert_same_rows,
    code_of,
    outcome_of,
    respond_of,
    rows_of,
)
from tests.common.algorithms.conftest import N_USERS, population

TRIGGER = 4.25
"""A rating that nobody else has."""
UNLUCKY = 7
POLICY = Policy(epsilon=100.0, delta=1e-5, smallest_catalogue=5)


class FailsOn:
    """A task that cannot compute some rows."""

    def __init__(self, task: Any, fails: Callable[[Cohort], bool]) -> None:
        self.task, self.fails = task, fails

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def contribute(self, cohort: Cohort, *asked: Any) -> Contribution:
        if self.fails(cohort):
            raise ArithmeticError(SECRET)
        rows: Contribution = self.task.contribute(cohort, *asked)
        return rows


def has_the_trigger(cohort: Cohort) -> bool:
    return bool((cohort.ratings == TRIGGER).any())


@pytest.fixture
def failing_on(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Cohort], bool]], None]:
    def install(fails: Callable[[Cohort], bool]) -> None:
        rebuild = answering.rebuild_any
        monkeypatch.setattr(
            answering, "rebuild_any", lambda board, **how: FailsOn(rebuild(board, **how), fails)
        )

    return install


@pytest.fixture
def trigger_fails(failing_on: Callable[[Callable[[Cohort], bool]], None]) -> None:
    failing_on(has_the_trigger)


def with_rating(rating: float) -> Cohort:
    """The population, in which one user's first rating is this one."""
    cohort = population()
    ratings = cohort.ratings.copy()
    ratings[cohort.indptr[UNLUCKY]] = rating
    return replace(cohort, ratings=ratings)


def emptied(cohort: Cohort, user: int = UNLUCKY) -> Cohort:
    """The same users, one of whom has rated nothing."""
    start, stop = cohort.indptr[user], cohort.indptr[user + 1]
    indptr = cohort.indptr.copy()
    indptr[user + 1 :] -= stop - start
    keep = np.r_[0:start, stop : cohort.items.size]
    return replace(cohort, indptr=indptr, items=cohort.items[keep], ratings=cohort.ratings[keep])


SCALES = [1.0, 0.5, np.linspace(1, 4096, N_USERS).round() / 4096]


@pytest.mark.slow
@pytest.mark.usefixtures("trigger_fails")
@pytest.mark.parametrize("scale", SCALES, ids=["whole", "half", "each her own"])
@pytest.mark.parametrize(("task", "board"), ASKED, ids=NAMES)
def test_at_a_gateway_only_the_failing_row_is_empty_and_all_others_are_what_they_were(
    task: Any, board: Board, scale: float | FloatArray
) -> None:
    device = Device(ratings=with_rating(TRIGGER), scale=scale)
    sound = Device(ratings=with_rating(3.0), scale=scale)
    empty = Device(ratings=emptied(population()), scale=scale)

    rows, expected = (rows_of(respond_of(one, a_question(board))) for one in (device, sound))

    others = np.arange(N_USERS) != UNLUCKY
    assert_same_rows(only_rows(expected, others), only_rows(rows, others))
    assert_same_rows(rows_of(respond_of(empty, a_question(board))), rows)
    own = only_rows(rows, ~others)
    assert own.items.size == 0
    assert not any(values.any() for values in own.totals.values())
    assert [len(one.failures) for one in (device, sound, empty)] == [1, 0, 0]


@pytest.mark.usefixtures("trigger_fails")
def test_one_user_whose_rating_fails_answers_as_one_without_ratings_and_it_is_booked() -> None:
    own = [with_rating(rating).rows(UNLUCKY, UNLUCKY + 1) for rating in (TRIGGER, 3.0)]
    failing, sound = (Device(ratings=rows) for rows in own)
    nothing = Device(ratings=emptied(population()).rows(UNLUCKY, UNLUCKY + 1))

    said = [respond_of(one, a_question()) for one in (failing, sound, nothing)]

    assert said[0] == said[2] != said[1]
    assert failing.events == sound.events == ["recall", "admit", "cohort", "commit"]
    assert [str(error) for error in failing.failures] == [SECRET]
    assert failing.noted == sound.noted == []
    assert SECRET.encode() not in said[0]
    assert respond_of(failing, a_question()) == said[0]  # kept, and sent again


@pytest.mark.parametrize("error", [RuntimeError(SECRET), RefusedError(Refusal.NO_RATINGS), MemoryError()])
def test_ratings_that_cannot_be_read_are_answered_as_empty_rows(error: Exception) -> None:
    device = Device(broken={"cohort": error})

    content = respond_of(device, a_question())

    assert answered(content).n_users == N_USERS
    assert rows_of(content).items.size == 0
    assert device.failures == [error]
    assert device.events[-1] == "commit"
    assert SECRET.encode() not in content


@pytest.mark.parametrize("fails", [lambda cohort: cohort.items.size == 0, lambda cohort: True])
@pytest.mark.parametrize("rating", [TRIGGER, 3.0])
def test_a_board_that_fails_for_empty_rows_is_bad_for_everybody(
    failing_on: Callable[[Callable[[Cohort], bool]], None], fails: Callable[[Cohort], bool], rating: float
) -> None:
    """Also where these ratings could be computed: else who is refused would tell who has them."""
    failing_on(lambda cohort: fails(cohort) or has_the_trigger(cohort))
    device = Device(ratings=with_rating(rating))

    assert code_of(respond_of(device, a_question())) is Refusal.BAD_BOARD
    assert device.events == ["recall", "admit"]  # no rating was looked at
    assert device.noted == [Refusal.BAD_BOARD]
    assert not device.kept


POINTED = [
    {"item_weights": np.inf},
    {"item_weights": np.nan},
    {"item_weights": -1.0},
    {"item_scale": np.inf},
    {"item_factors": np.nan},
    {"item_factors": 1e30},
]


@pytest.mark.slow
@pytest.mark.parametrize("number", POINTED, ids=str)
def test_a_board_that_is_spoilt_for_one_item_does_not_tell_who_rated_it(number: dict[str, float]) -> None:
    """With nothing of the client changed: everybody is refused alike, or everybody answers."""
    ((name, value),) = number.items()
    spoilt = np.array(BOARD.arrays[name])
    spoilt[3] = value
    board = replace(BOARD, arrays={**BOARD.arrays, name: spoilt}, _digest=[])
    users = [population().rows(user, user + 1) for user in range(N_USERS)]
    devices = [Device(ratings=rows) for rows in users]
    assert 0 < sum(bool((rows.items == 3).any()) for rows in users) < N_USERS

    with np.errstate(all="ignore"):
        said = [outcome_of(respond_of(device, a_question(board))) for device in devices]

    assert len({one if isinstance(one, Refusal) else "answer" for one in said}) == 1
    if name == "item_factors":  # the negative control: for some it failed
        assert 0 < sum(bool(device.failures) for device in devices) < N_USERS


@pytest.mark.usefixtures("trigger_fails")
def test_a_device_pays_for_a_failing_rating_what_it_pays_for_any_other(tmp_path: Path) -> None:
    boards = certified_boards(tmp_path, TASK)
    devices = [CertifiedDevice(tmp_path / name, POLICY) for name in ("failing", "sound")]
    for device, rating in zip(devices, (TRIGGER, 3.0), strict=True):
        device.ratings = Ratings(with_rating(rating).rows(UNLUCKY, UNLUCKY + 1))

    for board in boards:
        assert [device.code(board) for device in devices] == [None, None]

    failing, sound = devices
    assert failing.booked() == sound.booked() != []
    assert failing.spent() == sound.spent()
    assert (failing.refusals(), sound.refusals()) == ({Refusal.INTERNAL: len(boards)}, {})


def test_a_device_counts_refusals_that_its_gate_never_saw(
    tmp_path: Path, failing_on: Callable[[Callable[[Cohort], bool]], None]
) -> None:
    board = certified_boards(tmp_path, TASK)[0]
    device = CertifiedDevice(tmp_path / "device", POLICY)
    assert device.code(board, form="sparse") is Refusal.WRONG_FORM
    assert refused(device.reply(signed(b"?"))) is Refusal.MALFORMED
    assert refused(device.reply(a_question(board, reply_key=bytes(32)))) is Refusal.MALFORMED
    failing_on(lambda cohort: True)
    assert device.code(board) is Refusal.BAD_BOARD

    assert device.refusals() == {Refusal.WRONG_FORM: 1, Refusal.MALFORMED: 2, Refusal.BAD_BOARD: 1}
    assert device.booked() == []


def test_a_count_that_cannot_be_written_changes_nothing_that_is_said() -> None:
    class Full(Device):
        def note(self, code: Refusal) -> None:
            raise OSError(SECRET)

    assert code_of(respond_of(Full(), signed(b"?"))) is Refusal.MALFORMED
    assert code_of(respond_of(Full(), a_question(form="sparse"))) is Refusal.WRONG_FORM
    assert code_of(respond_of(Full(broken={"admit": OSError()}), a_question())) is Refusal.INTERNAL


def test_a_gate_that_refuses_where_rows_fail_has_its_way() -> None:
    """Of simulated nodes: there a failure should be seen."""

    class Strict(Device):
        def failed(self, error: Exception) -> None:
            raise RefusedError(Refusal.INTERNAL) from error

    device = Strict(broken={"cohort": RuntimeError(SECRET)})

    assert code_of(respond_of(device, a_question())) is Refusal.INTERNAL
    assert not device.kept


def test_no_user_at_all_is_an_answer_too_where_ratings_cannot_be_read() -> None:
    nobody = Device(ratings=population().rows(0, 0), broken={"cohort": RuntimeError()})

    assert answered(respond_of(nobody, a_question())).n_users == 0
