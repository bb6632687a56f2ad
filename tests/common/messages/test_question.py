"""Questions: the board as it is, and a code for whatever a server sends instead."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedboard.common.messages.frame import pack_frame
from fedboard.common.messages.question import Question
from fedboard.common.messages.refusals import Refusal, RefusedError
from tests.client.asking import KEY, asking
from tests.common.algorithms.conftest import a_prepared_board, a_task
from tests.refusals import refused

BOARD = a_prepared_board(a_task())
QUESTION = asking(BOARD)
SAID = {
    "run": "run-1",
    "round": 1,
    "protocol": "trusted",
    "form": "factored",
    "private_noise": True,
    "reply_key": KEY.public.hex(),
}
EXPECTED = ("run-1", "trusted", "factored", BOARD.digest, True, KEY.public)
STORED = np.frombuffer(BOARD.to_bytes(), dtype=np.uint8)


def code_of(content: bytes) -> Refusal:
    return refused(Question.from_bytes, content)


def about(stored: bytes, *, version: Any = 1, name: str = "board", **fields: Any) -> bytes:
    return pack_frame(
        "question",
        {**SAID, "round": version, **fields},
        {name: np.frombuffer(stored, dtype=np.uint8)},
    )


def header_of(stored: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(stored[:8], "little")
    return json.loads(stored[8 : 8 + length]), stored[8 + length :]


def a_file(header: dict[str, Any], body: bytes) -> bytes:
    encoded = json.dumps(header).encode()
    encoded += b" " * (-(8 + len(encoded)) % 64)
    return len(encoded).to_bytes(8, "little") + encoded + body


def described(**description: Any) -> bytes:
    """The board's file with another description."""
    header, body = header_of(BOARD.to_bytes())
    said = json.loads(header["__metadata__"]["fedboard"]) | description
    return a_file({**header, "__metadata__": {"fedboard": json.dumps(said)}}, body)


def with_array(entry: Any) -> bytes:
    header, body = header_of(BOARD.to_bytes())
    return a_file({**header, "array/item_factors": entry}, body)


def with_ids(ids: bytes) -> bytes:
    header, body = header_of(replace(BOARD, arrays={"x": np.frombuffer(ids, dtype=np.uint8)}).to_bytes())
    header["catalogue/item_ids"] = header.pop("array/x")
    return a_file(header, body)


F32: dict[str, Any] = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
BAD_BOARDS = {
    "version": [described(version=version) for version in (True, 1.0, "1", None, -1, [1], 10**30)],
    "config": [described(config=c) for c in (None, [1], {"x": float("nan")}, {"x": "\ud800"})],
    "description": [
        *(described(task=7), described(format="fedboard-board-9"), described(certificate=3)),
        described(previous_digest=3),
    ],
    "shape": [
        with_array(F32 | {"shape": [10**30]}),
        with_array(F32 | {"shape": [0, 10**30], "data_offsets": [0, 0]}),
        with_array(F32 | {"shape": [-1], "data_offsets": [4, 0]}),
        with_array(F32 | {"shape": [1 << 32, 1 << 32], "data_offsets": [0, 0]}),
        with_array(F32 | {"shape": 1}),
    ],
    "offsets": [
        *(with_array(F32 | {"data_offsets": o}) for o in ([-4, 0], [0.0, 4.0], [10**30, 10**30 + 4])),
        with_array({"dtype": "F32", "shape": [1]}),
    ],
    "dtype": [
        with_array(F32 | {"dtype": ["F32"]}),
        with_array(F32 | {"dtype": "F16", "data_offsets": [0, 2]}),
    ],
    "array": [with_array("not an array"), with_array(None)],
    "catalogue": [
        with_ids(ids) for ids in (b"7", b"{}", b"[1, 2]", b"[", b"\xff", b'["\\ud800"]', b"[[]]", b"null")
    ],
}


@pytest.mark.parametrize("part", BAD_BOARDS)
def test_a_board_that_cannot_be_is_refused(part: str) -> None:
    """Its version, its description, an array or its list of items is not one."""
    assert {code_of(about(stored)) for stored in BAD_BOARDS[part]} == {Refusal.BAD_BOARD}
    Question.from_bytes(about(described()))


def test_a_board_in_another_shape_is_refused() -> None:
    for values in (STORED.astype(np.int16), STORED[None, :]):
        assert code_of(pack_frame("question", SAID, {"board": values})) is Refusal.MALFORMED


@pytest.mark.parametrize("certificate", [None, {"claim": {"epsilon": 1.0}}])
def test_a_question_comes_as_it_was_asked(certificate: dict[str, Any] | None) -> None:
    asked = replace(QUESTION, board=replace(BOARD, certificate=certificate))

    read = Question.from_bytes(asked.content)

    assert (read.run, read.round, read.protocol, read.form) == ("run-1", 1, "trusted", "factored")
    assert (read.private_noise, read.reply_key) == (True, KEY.public)
    assert read.about == asked.about
    assert read.board.digest == BOARD.digest
    assert read.board.certificate == certificate
    for name, values in BOARD.arrays.items():
        np.testing.assert_array_equal(read.board.arrays[name], values)


def test_a_board_of_another_round_than_the_one_that_is_named_is_refused() -> None:
    assert code_of(about(BOARD.to_bytes(), version=2)) is Refusal.WRONG_ROUND
    assert code_of(about(BOARD.successor().to_bytes())) is Refusal.WRONG_ROUND


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, len(QUESTION.content) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_gives_a_code_or_another_board(place: int, bit: int) -> None:
    content = bytearray(QUESTION.content)
    content[place] ^= 1 << bit

    try:
        read = Question.from_bytes(bytes(content))
    except RefusedError:
        return
    named = (read.run, read.protocol, read.form, read.board.digest, read.private_noise, read.reply_key)
    padding = bytes(content[:-8]) == QUESTION.content[:-8] or read.board.to_bytes() == BOARD.to_bytes()
    assert padding or named != EXPECTED


@pytest.mark.parametrize(
    "content",
    [
        about(BOARD.to_bytes(), more=1),
        about(BOARD.to_bytes(), run=7),
        about(BOARD.to_bytes(), form=None),
        about(BOARD.to_bytes(), version="1"),
        about(BOARD.to_bytes(), version=1.5),
        about(BOARD.to_bytes(), name="boards"),
        about(BOARD.to_bytes(), private_noise=None),
        about(BOARD.to_bytes(), private_noise=1),
        about(BOARD.to_bytes(), reply_key=None),
        about(BOARD.to_bytes(), reply_key="no number"),
        about(BOARD.to_bytes(), reply_key="\u0660" * 64),
        pack_frame("question", {k: v for k, v in SAID.items() if k != "reply_key"}, {"board": STORED}),
        pack_frame("question", {k: v for k, v in SAID.items() if k != "private_noise"}, {"board": STORED}),
        pack_frame("answer", {}, {}),
        pack_frame("question", {}, {}),
    ],
)
def test_a_question_with_other_fields_is_refused(content: bytes) -> None:
    assert code_of(content) is Refusal.MALFORMED


def test_the_text_of_a_refused_board_is_nowhere() -> None:
    stored = described(format="secret-format")

    with pytest.raises(RefusedError) as refused:
        Question.from_bytes(about(stored))

    assert str(refused.value) == "bad-board"
    assert refused.value.__suppress_context__


def test_what_a_reply_is_about_names_run_round_and_board() -> None:
    others = [
        asking(BOARD, run="run-2"),
        asking(BOARD.successor()),
        asking(replace(BOARD, arrays={**BOARD.arrays, "mean": np.array([3.0])}, _digest=[])),
    ]

    assert len({QUESTION.about, *(other.about for other in others)}) == 4
    assert asking(BOARD, form="dense", private_noise=False, reply_key=bytes(32)).about == QUESTION.about
