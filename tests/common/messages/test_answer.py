"""Answers: rows and sums as they were sent, codes, and a code for whatever a client sends instead."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.messages.frame import pack_frame
from fedboard.common.messages.question import Answer, refusal
from fedboard.common.messages.refusals import Refusal, RefusedError
from fedboard.common.protocols.trusted import Trusted
from tests.common.algorithms.conftest import (
    N_ITEMS,
    a_prepared_board,
    a_residual_task,
    a_task,
    population,
    residual_boards,
)
from tests.refusals import refused

LIMIT = 1 << 22
TASK = a_task()
RESIDUAL = a_residual_task()
ASKED = [
    *(
        (TASK, board)
        for board in (TASK.first_board(a_prepared_board(TASK).catalogue), a_prepared_board(TASK))
    ),
    *((RESIDUAL, board) for board in residual_boards(RESIDUAL)[:-1]),
]
NAMES = [f"{task.NAME}-{board.version}" for task, board in ASKED]
ROWS = ("indptr", "items", "weights", "vectors", "responses")
FACTORED = {"run": "run-1", "round": 1, "board_digest": "d", "n_items": N_ITEMS, "first_row": 0}


def an_answer(task: Any, board: Any) -> Answer:
    requests = task.requests(board)
    rows = Trusted().encode(task.contribute(population(), board, requests), requests)
    return Answer(
        run="run-1", round=board.version, board_digest=board.digest, n_users=40, first_row=8, rows=rows
    )


CONTENT = an_answer(*ASKED[1]).to_bytes(n_items=N_ITEMS)


def code_of(content: bytes, limit: int = LIMIT) -> Refusal:
    return refused(Answer.from_bytes, content, limit=limit)


@pytest.mark.parametrize(("task", "board"), ASKED, ids=NAMES)
def test_rows_come_as_they_were_sent(task: Any, board: Any) -> None:
    sent = an_answer(task, board)

    read = Answer.from_bytes(sent.to_bytes(n_items=N_ITEMS), limit=LIMIT)

    assert replace(read, rows=sent.rows) == sent
    ours, theirs = sent.rows, read.rows
    assert theirs.n_items == N_ITEMS
    for name in ROWS:
        values, came = getattr(ours, name), getattr(theirs, name)
        assert (values is None) == (came is None)
        if values is not None:
            assert came.dtype == values.dtype
            np.testing.assert_array_equal(came, values)
    assert set(theirs.totals) == set(ours.totals)
    for name, values in ours.totals.items():
        np.testing.assert_array_equal(theirs.totals[name], values)


@pytest.mark.parametrize("code", list(Refusal))
def test_a_refusal_comes_as_its_code_alone(code: Refusal) -> None:
    assert code_of(refusal(code)) is code
    assert len(refusal(code)) < 128


def test_a_refusal_with_anything_else_in_it_says_nothing() -> None:
    for fields in ({"code": "because she rated item 7"}, {"code": "internal", "reason": "item 7"}, {}):
        assert code_of(pack_frame("refusal", fields, {})) is Refusal.MALFORMED


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(flips=st.lists(st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(1, 255)), max_size=4))
def test_flipped_bytes_give_a_code_or_an_answer(flips: list[tuple[int, int]]) -> None:
    content = bytearray(CONTENT)
    for place, mask in flips:
        content[place] ^= mask

    try:
        answer = Answer.from_bytes(bytes(content), limit=LIMIT)
    except RefusedError:
        return
    assert answer.rows.indptr.shape == (answer.n_users + 1,)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"n_users": number} for number in (-1, 39, 10**18, True, 40.5)),
        *({"first_row": number} for number in (-1, 2**62, 10**30)),
        {"round": "1"},
        {"run": None},
        {"board_digest": 7},
        {"more": 1},
    ],
)
def test_an_answer_with_other_fields_is_refused(wrong: dict[str, Any]) -> None:
    rows = an_answer(*ASKED[1]).rows
    arrays = {name: getattr(rows, name) for name in ROWS}
    fields = {**FACTORED, "form": "factored", "n_users": 40}
    Answer.from_bytes(pack_frame("answer", fields, arrays), limit=LIMIT)

    assert code_of(pack_frame("answer", {**fields, **wrong}, arrays)) is Refusal.MALFORMED


def test_an_answer_of_an_unknown_form_is_refused() -> None:
    fields = {**FACTORED, "form": "sparse", "n_users": 0}

    assert code_of(pack_frame("answer", fields, {})) is Refusal.WRONG_FORM


def test_rows_without_their_frame_are_refused() -> None:
    fields = {**FACTORED, "form": "factored", "n_users": 2}
    bounds, items = np.zeros(3, dtype=np.int64), np.zeros(0, dtype=np.int32)
    Answer.from_bytes(pack_frame("answer", fields, {"indptr": bounds, "items": items}), limit=LIMIT)

    for arrays in (
        {},
        {"indptr": bounds},
        {"items": items},
        {"indptr": bounds[:, None], "items": items},
        {"indptr": np.zeros(4, dtype=np.int64), "items": items},
        {"indptr": bounds, "items": np.zeros((0, 2), dtype=np.int32)},
        {"indptr": bounds, "items": items, "ratings": np.zeros(0, dtype=np.int16)},
    ):
        assert code_of(pack_frame("answer", fields, arrays)) is Refusal.MALFORMED


def test_an_answer_shows_nothing_of_itself() -> None:
    answer = an_answer(*ASKED[1])

    assert "Answer object" in repr(answer)
    assert "Contribution object" in repr(answer.rows)


def test_too_large_an_answer_is_refused() -> None:
    assert code_of(CONTENT, limit=len(CONTENT) - 1) is Refusal.TOO_LARGE
