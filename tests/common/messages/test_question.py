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
    with pytest.raises(RefusedError) as refused:
        Question.from_bytes(content)
    return refused.value.code


def about(stored: bytes, *, version: Any = 1, name: str = "board", **fields: Any) -> bytes:
    return pack_frame(
        "question",
        {**SAID, "round": version, **fields},
        {name: np.frombuffer(stored, dtype=np.uint8)},
    )


def with_header(change: dict[str, Any], *, description: dict[str, Any] | None = None) -> bytes:
    """The board's file with another header."""
    stored = BOARD.to_bytes()
    length = int.from_bytes(stored[:8], "little")
    header = json.loads(stored[8 : 8 + length])
    said = json.loads(header["__metadata__"]["fedboard"]) | (description or {})
    header["__metadata__"]["fedboard"] = json.dumps(said)
    encoded = json.dumps({**header, **change}).encode()
    encoded += b" " * (-(8 + len(encoded)) % 64)
    return len(encoded).to_bytes(8, "little") + encoded + stored[8 + length :]


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


@pytest.mark.parametrize("version", [True, 1.0, "1", None, -1, [1], 10**30])
def test_a_version_that_is_no_number_of_rounds_is_refused(version: Any) -> None:
    stored = with_header({}, description={"version": version})

    assert code_of(about(stored)) is Refusal.BAD_BOARD


@pytest.mark.parametrize(
    "description",
    [
        {"config": None},
        {"config": [1]},
        {"config": {"x": float("nan")}},
        {"config": {"x": "\ud800"}},
        {"task": 7},
        {"format": "fedboard-board-9"},
        {"certificate": 3},
        {"previous_digest": 3},
    ],
)
def test_a_board_with_another_description_is_refused(description: dict[str, Any]) -> None:
    assert code_of(about(with_header({}, description=description))) is Refusal.BAD_BOARD


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [10**30], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [0, 10**30], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]},
        {"dtype": "F32", "shape": [1 << 32, 1 << 32], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]},
        {"dtype": "F32", "shape": [1], "data_offsets": [0.0, 4.0]},
        {"dtype": "F32", "shape": [1], "data_offsets": [10**30, 10**30 + 4]},
        {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]},
        {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]},
        {"dtype": "F32", "shape": [1]},
        "not an array",
        None,
    ],
)
def test_a_board_with_an_impossible_array_is_refused(entry: Any) -> None:
    assert code_of(about(with_header({"array/item_factors": entry}))) is Refusal.BAD_BOARD


@pytest.mark.parametrize("ids", [b"7", b"{}", b"[1, 2]", b"[", b"\xff", b'["\\ud800"]', b"[[]]", b"null"])
def test_a_board_whose_catalogue_is_not_a_list_of_names_is_refused(ids: bytes) -> None:
    catalogue = replace(BOARD, arrays={"x": np.frombuffer(ids, dtype=np.uint8)}).to_bytes()
    length = int.from_bytes(catalogue[:8], "little")
    header = json.loads(catalogue[8 : 8 + length])
    header["catalogue/item_ids"] = header.pop("array/x")
    encoded = json.dumps(header).encode()
    encoded += b" " * (-(8 + len(encoded)) % 64)
    stored = len(encoded).to_bytes(8, "little") + encoded + catalogue[8 + length :]

    assert code_of(about(stored)) is Refusal.BAD_BOARD


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
    stored = with_header({}, description={"format": "secret-format"})

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
