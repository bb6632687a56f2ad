"""Frames: what was packed is read, and whatever else comes in is refused with a code, at no cost."""

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from fedboard.common.messages.frame import Frame, pack_frame, unpack_frame
from fedboard.common.messages.refusals import Refusal, RefusedError
from tests.refusals import refused

LIMIT = 1 << 20
KINDS = ("letter", "parcel")
ARRAYS = st.dictionaries(
    st.text(max_size=8),
    npst.arrays(
        dtype=st.sampled_from(["<i2", "<i4", "<i8", "u1"]),
        shape=npst.array_shapes(max_dims=2, min_side=0, max_side=6),
    ),
    max_size=4,
)
FIELDS = st.dictionaries(
    st.text(max_size=8),
    st.one_of(st.integers(-(2**53), 2**53), st.text(max_size=8), st.booleans(), st.none()),
    max_size=4,
)


def unpacked(content: bytes) -> Frame:
    return unpack_frame(content, kinds=KINDS, limit=LIMIT)


def code_of(content: bytes, *, limit: int = LIMIT) -> Refusal:
    return refused(unpack_frame, content, kinds=KINDS, limit=limit)


def a_frame() -> bytes:
    arrays = {"numbers": np.arange(6, dtype=np.int16).reshape(2, 3), "bytes": np.arange(5, dtype=np.uint8)}
    return pack_frame("letter", {"to": "everybody", "count": 3}, arrays)


def with_header(header: Any, body: bytes = b"") -> bytes:
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    encoded += b" " * (-(12 + len(encoded)) % 8)
    return b"FBFRAME1" + len(encoded).to_bytes(4, "little") + encoded + body


def announcing(*arrays: dict[str, Any], body: bytes = b"") -> bytes:
    return with_header({"kind": "letter", "fields": {}, "arrays": list(arrays)}, body)


@pytest.mark.slow
@settings(deadline=None)
@given(kind=st.sampled_from(KINDS), fields=FIELDS, arrays=ARRAYS)
def test_what_was_packed_is_read(kind: str, fields: dict[str, Any], arrays: dict[str, Any]) -> None:
    frame = unpacked(pack_frame(kind, fields, arrays))

    assert (frame.kind, frame.fields) == (kind, fields)
    assert set(frame.arrays) == set(arrays)
    for name, values in arrays.items():
        assert frame.arrays[name].dtype == values.dtype
        np.testing.assert_array_equal(frame.arrays[name], values)


def test_a_frame_that_is_cut_short_anywhere_is_refused() -> None:
    content = a_frame()

    for length in range(len(content)):
        assert code_of(content[:length]) is Refusal.MALFORMED


@settings(deadline=None)
@given(rest=st.binary(min_size=1, max_size=32))
def test_a_frame_with_something_behind_it_is_refused(rest: bytes) -> None:
    assert code_of(a_frame() + rest) is Refusal.MALFORMED


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, len(a_frame()) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_gives_a_code_or_a_frame_of_the_same_size(place: int, bit: int) -> None:
    content = bytearray(a_frame())
    content[place] ^= 1 << bit

    try:
        frame = unpacked(bytes(content))
    except RefusedError:
        return
    assert sum(values.nbytes for values in frame.arrays.values()) <= len(content)


@settings(max_examples=300, deadline=None)
@given(content=st.one_of(st.binary(max_size=200), st.binary(max_size=100).map(lambda b: b"FBFRAME1" + b)))
def test_bytes_from_nowhere_give_a_code(content: bytes) -> None:
    assert code_of(content) in (Refusal.MALFORMED, Refusal.WRONG_VERSION)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    header=st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(["kind", "fields", "arrays", "name", "shape"]), inner),
        ),
        max_leaves=12,
    )
)
def test_any_json_as_a_header_gives_a_code(header: Any) -> None:
    assert code_of(with_header(header)) is Refusal.MALFORMED


@pytest.mark.parametrize(
    "shape",
    [
        [1 << 62],
        [1 << 40, 1 << 40],
        [10**30],
        [0, 10**30],
        [10**18, 0],
        [0, (1 << 63) - 1],
        [-1],
        [-1, -1],
        [2, -3],
        [],
        [1, 1, 1],
        [1.5],
        ["1"],
        [None],
        7,
        [True],
    ],
)
def test_a_shape_that_nothing_has_is_refused(shape: Any) -> None:
    for dtype in ("i8", "u1"):
        described = {"name": "x", "dtype": dtype, "shape": shape}
        assert code_of(announcing(described, body=bytes(64))) is Refusal.MALFORMED


@pytest.mark.parametrize("dtype", ["f8", "O", "V8", "U8", ">i8", "i16", "", "int64", "M8[s]", "b1"])
def test_an_array_of_another_type_is_refused(dtype: str) -> None:
    described = {"name": "x", "dtype": dtype, "shape": [1]}
    assert code_of(announcing(described, body=bytes(8))) is Refusal.MALFORMED


def test_nothing_is_set_aside_for_what_is_only_announced() -> None:
    described = {"name": "x", "dtype": "i8", "shape": [1 << 50]}
    content = announcing(described)
    tracemalloc.start()
    try:
        assert code_of(content) is Refusal.MALFORMED
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 18


def test_an_array_that_comes_twice_is_refused() -> None:
    described = {"name": "x", "dtype": "u1", "shape": [8]}

    assert code_of(announcing(described, described, body=bytes(16))) is Refusal.MALFORMED


def test_another_version_is_told_from_something_else() -> None:
    assert code_of(b"FBFRAME2" + a_frame()[8:]) is Refusal.WRONG_VERSION
    assert code_of(b"FBFRAME") is Refusal.MALFORMED
    assert code_of(b"GIF89a..") is Refusal.MALFORMED


def test_a_message_of_another_kind_is_refused() -> None:
    assert code_of(pack_frame("postcard", {}, {})) is Refusal.MALFORMED


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xff\xfe",
        b'{"kind": "letter", "fields": {}, "arrays": [], "more": 1}',
        b'{"kind": "letter", "fields": {}}',
        b'{"kind": "letter", "fields": {"x": NaN}, "arrays": []}',
        b'{"kind": "letter", "fields": {"x": "\\ud800"}, "arrays": []}',
        b'{"kind": "letter", "fields": ' + b"[" * 100_000 + b"]" * 100_000 + b', "arrays": []}',
        b'{"kind": "letter", "fields": {"x": ' + b"9" * 5000 + b'}, "arrays": [{}]}',
    ],
)
def test_a_header_that_is_not_one_is_refused(header: bytes) -> None:
    assert code_of(with_header(header)) is Refusal.MALFORMED


def test_a_header_larger_than_any_is_refused() -> None:
    content = with_header(b'{"kind": "letter", "fields": {}, "arrays": []}' + b" " * (1 << 20))

    assert code_of(content, limit=1 << 22) is Refusal.MALFORMED
