"""The frame around every message: a kind, a small header and typed arrays, in one piece of bytes.

Layout, all little-endian: the magic ``FBFRAME1`` (its digit is the version of the format), the length
of the header (uint32), the header as JSON, then the arrays one after the other, each from a multiple of 8 bytes on.
The header names kind, fields and, for each array, name, dtype and shape. Reading allocates nothing from announced
sizes: arrays are views of the bytes.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.common.messages.refusals import Refusal, RefusedError

_MAGIC = b"FBFRAME1"
_MAGIC_BYTES = len(_MAGIC)
_PREFIX = _MAGIC_BYTES + 4
_ALIGNMENT = 8
_MAX_HEADER = 1 << 20
_MAX_DIMENSIONS = 2
_LONGEST_SIDE = 1 << 40
"""Longer than any: so that the shape of an array without elements stays in range too."""
_DTYPES = {name: np.dtype(f"<{name}") for name in ("i2", "i4", "i8", "u4", "u8")} | {"u1": np.dtype("u1")}

Fields = TypeVar("Fields")
Shapes: TypeAlias = Mapping[str, tuple[str, tuple[int | None, ...]]]
"""What arrays a message has: dtype and shape by name; None is a side of any length."""


class NoFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a message that is arrays alone."""


class _Described(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    dtype: str
    shape: tuple[int, ...]


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    fields: dict[str, Any]
    arrays: tuple[_Described, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Frame:
    """A message that was read: its fields are JSON values and its arrays views, neither checked further."""

    kind: str
    fields: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    def read(self, fields: type[Fields]) -> Fields:
        """The fields as a struct that says which there are.

        Raises:
            RefusedError: they are not those.
        """
        try:
            return msgspec.convert(dict(self.fields), fields)
        except msgspec.ValidationError:
            raise RefusedError(Refusal.MALFORMED) from None

    def arrays_as(self, shapes: Shapes) -> list[NDArray[Any]]:
        """The arrays, in the order of ``shapes``.

        Raises:
            RefusedError: other arrays, dtypes or shapes.
        """
        if set(self.arrays) != set(shapes):
            raise RefusedError(Refusal.MALFORMED)
        for name, (dtype, shape) in shapes.items():
            array = self.arrays[name]
            fits = len(shape) == array.ndim and all(
                side in (None, found) for side, found in zip(shape, array.shape, strict=True)
            )
            if not fits or array.dtype != np.dtype(f"<{dtype}"):
                raise RefusedError(Refusal.MALFORMED)
        return [self.arrays[name] for name in shapes]


def pack_frame(kind: str, fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """One message as bytes.

    Args:
        kind: what message it is.
        fields: JSON-able.
        arrays: int16, int32, int64, uint8, uint32 or uint64, of one or two dimensions.
    """
    parts = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    described = [[name, array.dtype.str[1:], list(array.shape)] for name, array in parts.items()]
    header = json.dumps(
        {
            "kind": kind,
            "fields": dict(fields),
            "arrays": [{"name": n, "dtype": d, "shape": s} for n, d, s in described],
        },
        allow_nan=False,
    ).encode()
    header += b" " * (-(_PREFIX + len(header)) % _ALIGNMENT)
    pieces = [_MAGIC, len(header).to_bytes(4, "little"), header]
    for array in parts.values():
        content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        pieces += [content, bytes(-len(content) % _ALIGNMENT)]
    return b"".join(pieces)


def unpack_frame(content: bytes | memoryview, *, kinds: tuple[str, ...], limit: int) -> Frame:
    """Read one message. Nothing in it is trusted.

    Args:
        content: from a peer.
        kinds: which messages may come here.
        limit: most bytes that are taken.

    Raises:
        RefusedError: too large, of another version, not complete, longer than it says, or not of these kinds.
    """
    if len(content) > limit:
        raise RefusedError(Refusal.TOO_LARGE)
    header, start = _header(memoryview(content))
    if header.kind not in kinds:
        raise RefusedError(Refusal.MALFORMED)
    arrays: dict[str, NDArray[Any]] = {}
    for described in header.arrays:
        dtype, count = _size(described)
        stop = start + count * dtype.itemsize
        if stop > len(content) or described.name in arrays:
            raise RefusedError(Refusal.MALFORMED)
        values = np.frombuffer(content, dtype=dtype, count=count, offset=start)
        arrays[described.name] = values.reshape(described.shape)
        start = stop + -stop % _ALIGNMENT
    if start != len(content):
        raise RefusedError(Refusal.MALFORMED)
    return Frame(kind=header.kind, fields=header.fields, arrays=arrays)


def _header(content: memoryview) -> tuple[_Header, int]:
    """The header, and where the arrays start."""
    magic = bytes(content[:_MAGIC_BYTES])
    if magic != _MAGIC:
        known = len(magic) == _MAGIC_BYTES and magic[:-1] == _MAGIC[:-1]
        raise RefusedError(Refusal.WRONG_VERSION if known else Refusal.MALFORMED)
    length = int.from_bytes(content[_MAGIC_BYTES:_PREFIX], "little")
    start = _PREFIX + length
    if not 0 < length <= _MAX_HEADER or start > len(content) or start % _ALIGNMENT:
        raise RefusedError(Refusal.MALFORMED)
    try:
        return msgspec.json.decode(content[_PREFIX:start], type=_Header), start
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise RefusedError(Refusal.MALFORMED) from None


def _size(described: _Described) -> tuple[np.dtype[Any], int]:
    """Dtype and number of elements that an array announces; Python's whole numbers do not overflow."""
    dtype, shape = _DTYPES.get(described.dtype), described.shape
    if dtype is None or not 1 <= len(shape) <= _MAX_DIMENSIONS:
        raise RefusedError(Refusal.MALFORMED)
    if any(not 0 <= side <= _LONGEST_SIDE for side in shape):
        raise RefusedError(Refusal.MALFORMED)
    return dtype, math.prod(shape)
