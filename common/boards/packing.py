"""Smaller forms of a board file: compressed, with fewer bits for its numbers, without what the reader has.

A board file is a header and typed arrays; a packed file is the same header and, for each array, one of the forms
below, all in one deflate stream each:

- ``exact``: the bytes, of numbers first all first bytes, then all second ones, ... (they compress better so).
- ``float16``: rounded to 16-bit floating point numbers; becomes the stored type again.
- ``int8``: for a matrix, ``q = round(127 x / max|row|)`` and a float16 scale for each row; x ~ scale q.
- ``held``: left out; the SHA-256 of the array's bytes says which one of the reader's own board it is.

Unpacking is the same on every machine: it only converts and multiplies.
"""

import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.common.boards.inflating import Inflated
from fedboard.common.boards.manifest import Encoding
from fedboard.common.boards.refusals import FeedCode, FeedRefusedError

AnyArray = NDArray[Any]
Bytes = NDArray[np.uint8]

_MAGIC = b"FBPACK1\n"
_LEVEL = 6
_MAX_HEADER_BYTES = 1 << 26
_FEW_NUMBERS = 64
"""Shorter arrays (a mean, a matrix of a few columns) stay exact: they weigh nothing and much hangs on them."""
_LARGEST_FLOAT16 = 65504.0
_TALL = 4
"""A matrix with so many times more rows than columns has a row for each item."""
_INT8_BITS = 7
"""Of the fraction of numbers that are no matrix, in ``int8``: within 0.4 %, as factors are of their largest."""
_ALIGNMENT = 64
_FLOATS: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
_NOT_PACKED = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    zlib.error,
    msgspec.DecodeError,
)
"""What unpacking something else may raise."""
_ITEM_BYTES = {"F32": 4, "F64": 8, "I32": 4, "I64": 8, "U8": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One array of a board file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    content: Bytes
    """Its bytes; a view of the file."""

    @property
    def sha256(self) -> str:
        """Of its bytes."""
        return hashlib.sha256(self.content.tobytes()).hexdigest()


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    form: str
    packed: int
    size: int
    sha256: str | None = None


class _Contents(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    parts: tuple[_Part, ...]
    header: str


def sections(board_file: Bytes) -> tuple[bytes, list[Section]]:
    """The header and the arrays of a board file, uint8, shape (n_bytes,), in the order in which they lie there.

    Raises:
        ValueError, KeyError, TypeError: not a board file.
    """
    length = int.from_bytes(board_file[:8].tobytes(), "little")
    if not 0 < length <= min(_MAX_HEADER_BYTES, board_file.size - 8):
        raise ValueError("the header is cut short")
    header = board_file[8 : 8 + length].tobytes()
    body, found = board_file[8 + length :], []
    for name, entry in json.loads(header).items():
        if name != "__metadata__":
            start, stop = entry["data_offsets"]
            section = Section(
                name=name, dtype=entry["dtype"], shape=tuple(entry["shape"]), content=body[start:stop]
            )
            found.append((start, section))
    return header, [section for _, section in sorted(found, key=lambda pair: pair[0])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """A packed file and what it becomes."""

    content: bytes
    board_file: bytes
    """What ``unpack`` makes of ``content``; for ``packed`` the file that was packed."""


def pack(
    board_file: Bytes, encoding: Encoding, *, held: frozenset[str] = frozenset(), approximates: str
) -> Packed:
    """Pack a board file.

    Args:
        board_file: uint8, shape (n_bytes,). Public.
        encoding: ``packed``, ``float16`` or ``int8``.
        held: names of arrays that the reader has, as this encoding gives them (``restored_hashes`` tells);
            they are left out.
        approximates: digest of the exact board; stands in the header of an approximate one.
    """
    header, found = sections(board_file)
    if encoding is not Encoding.PACKED:
        header = _marked(header, approximates)
    parts, bodies, restored = [], [], [len(header).to_bytes(8, "little"), header]
    for section in found:
        form, plain, content = _rounded(section, encoding)
        left_out = section.name in held
        bodies.append(b"" if left_out else zlib.compress(plain, _LEVEL))
        parts.append(
            _Part(
                name=section.name,
                form="held" if left_out else form,
                packed=len(bodies[-1]),
                size=content.size,
                sha256=hashlib.sha256(content.data).hexdigest() if left_out else None,
            )
        )
        restored.append(content.tobytes())
    contents = msgspec.json.encode(_Contents(parts=tuple(parts), header=header.decode()))
    deflated = zlib.compress(contents, _LEVEL)
    lengths = len(deflated).to_bytes(4, "little") + len(contents).to_bytes(4, "little")
    return Packed(content=b"".join([_MAGIC, lengths, deflated, *bodies]), board_file=b"".join(restored))


def restored_hashes(board_file: Bytes, encoding: Encoding) -> dict[str, str]:
    """SHA-256 of each array's bytes as a reader of this encoding has them, by name."""
    return {
        section.name: hashlib.sha256(_rounded(section, encoding)[2].data).hexdigest()
        for section in sections(board_file)[1]
    }


def unpack(packed: IO[bytes], *, board_size: int, base: Bytes | None = None) -> Iterator[memoryview]:
    """The board file that was packed, or its approximation, array by array, so that it never is in memory twice.

    Args:
        packed: a file, at its beginning, whose SHA-256 was checked.
        board_size: size in bytes of what comes out, from the signed manifest; never more is made.
        base: the board file that the reader has, for a file that leaves arrays out.

    Raises:
        FeedRefusedError: ``malformed``, or ``wrong-digest`` where ``base`` does not hold what was left out.
    """
    try:
        yield from _unpacked_pieces(packed, board_size, _held_arrays(base))
    except _NOT_PACKED as error:
        raise FeedRefusedError(FeedCode.MALFORMED) from error


def _held_arrays(base: Bytes | None) -> Mapping[str, Section]:
    return {} if base is None else {section.name: section for section in sections(base)[1]}


def _unpacked_pieces(packed: IO[bytes], board_size: int, base: Mapping[str, Section]) -> Iterator[memoryview]:
    lead = packed.read(len(_MAGIC) + 8)
    if lead[: len(_MAGIC)] != _MAGIC:
        raise ValueError("another format")
    length = int.from_bytes(lead[-8:-4], "little")
    plain = int.from_bytes(lead[-4:], "little")
    if plain > _MAX_HEADER_BYTES:
        raise ValueError("the header is too long")
    inflated = Inflated(packed, length)
    contents = msgspec.json.decode(inflated.read(plain), type=_Contents)
    inflated.end()
    header = contents.header.encode()
    entries = json.loads(header)
    if any(part.size < 0 for part in contents.parts):
        raise ValueError("a negative size")  # by which another part could be larger than all of the board
    if 8 + len(header) + sum(part.size for part in contents.parts) != board_size:
        raise ValueError("another size than was signed")
    yield memoryview(len(header).to_bytes(8, "little") + header)
    for part in contents.parts:
        yield _restored(part, packed, entries[part.name], base).data


def _restored(part: _Part, packed: IO[bytes], entry: Mapping[str, Any], base: Mapping[str, Section]) -> Bytes:
    if part.form == "held":
        own = base.get(part.name)
        if own is None or own.sha256 != part.sha256:
            raise FeedRefusedError(FeedCode.WRONG_DIGEST)
        if own.content.size != part.size:
            raise ValueError("an array of another size")  # more would come out than was signed
        return own.content
    inflated = Inflated(packed, part.packed)
    with np.errstate(all="ignore"):  # of damage, such as a scale that is no number; ``end`` then refuses it
        content = _number_bytes(inflated, part.form, entry["dtype"], tuple(entry["shape"]), part.size)
    inflated.end()
    return content


def _number_bytes(inflated: Inflated, form: str, dtype: str, shape: tuple[int, ...], size: int) -> Bytes:
    """The bytes of an array in a board file, from its inflated form."""
    n, rest = divmod(size, _ITEM_BYTES[dtype])
    if rest or n != math.prod(shape):
        raise ValueError("an array of another shape")
    if form == "exact":
        return _joined(inflated, n, _ITEM_BYTES[dtype])
    if form == "float16":
        halves = _joined(inflated, n, 2).view("<f2")
        return halves.astype(_FLOATS[dtype]).view(np.uint8)
    if form != "int8":
        raise ValueError("an unknown form")
    scale = np.frombuffer(inflated.read(2 * shape[0]), dtype="<f2").astype(np.float32)
    values = np.frombuffer(inflated.read(n), dtype=np.int8).astype(np.float32).reshape(shape)
    values *= scale[:, None]
    return values.astype(_FLOATS[dtype], copy=False).reshape(-1).view(np.uint8)


def _rounded(section: Section, encoding: Encoding) -> tuple[str, bytes, Bytes]:
    """Form, bytes to deflate and bytes that come back of one array."""
    form = _form(section, encoding)
    plain = _packed(section, form, fewer_bits=encoding is Encoding.INT8)
    stored = zlib.compress(plain, 0)
    inflated = Inflated(BytesIO(stored), len(stored))
    return form, plain, _number_bytes(inflated, form, section.dtype, section.shape, section.content.size)


def _form(section: Section, encoding: Encoding) -> str:
    """Say how an array travels; what cannot be rounded safely stays exact."""
    learnt = section.name.startswith("array/")  # the catalogue says what is so: a year is no rounded year
    if encoding is Encoding.PACKED or section.dtype not in _FLOATS or not learnt:
        return "exact"
    values = numbers(section)
    in_range = values.size > _FEW_NUMBERS and np.abs(values).max() <= _LARGEST_FLOAT16
    if not in_range:  # nor where one is no number
        return "exact"
    tall = values.ndim == 2 and values.shape[0] >= _TALL * values.shape[1]
    return "int8" if encoding is Encoding.INT8 and tall else "float16"


def numbers(section: Section) -> AnyArray:
    """The floating point numbers of a section in their shape."""
    found: AnyArray = np.frombuffer(section.content.tobytes(), dtype=_FLOATS[section.dtype])
    return found.reshape(section.shape)


def _packed(section: Section, form: str, *, fewer_bits: bool) -> bytes:
    if form == "exact":
        return _split(section.content, _ITEM_BYTES[section.dtype])
    values = numbers(section)
    if form == "float16":
        halves = values.astype("<f2").reshape(-1)
        if fewer_bits:
            halves = _with_fewer_bits(halves)
        return _split(halves.view(np.uint8), 2)
    scale = (np.abs(values).max(axis=1) / 127.0).astype("<f2")
    safe = np.where(scale > 0, scale, 1).astype(np.float64)
    rounded = np.clip(np.rint(values / safe[:, None]), -127, 127).astype(np.int8)
    return bytes(scale.tobytes() + rounded.tobytes())


def _with_fewer_bits(halves: NDArray[np.float16]) -> NDArray[np.float16]:
    """Rounded to ``_INT8_BITS`` bits of the fraction, as exact as the factors beside them; the rest compresses."""
    unused = 10 - _INT8_BITS
    bits = halves.view("<u2")
    nearest = (bits + np.uint16(1 << (unused - 1))) & np.uint16(0xFFFF << unused & 0xFFFF)
    largest = (bits & np.uint16(0x7C00)) == np.uint16(0x7800)  # up there the next number may be infinite
    return np.where(largest, bits, nearest).astype("<u2").view("<f2")


def _split(content: Bytes, width: int) -> bytes:
    """All first bytes of the numbers, all second ones, ..."""
    return content.reshape(-1, width).T.tobytes()


def _joined(inflated: Inflated, n: int, width: int) -> Bytes:
    whole = np.empty((n, width), dtype=np.uint8)
    for place in range(width):
        whole[:, place] = np.frombuffer(inflated.read(n), dtype=np.uint8)
    return whole.reshape(-1)


def _marked(header: bytes, approximates: str) -> bytes:
    """The header of an approximate board: it says of which board, and carries that one's certificate.

    A reader works out from the certificate whether the noise is a simulation's, so no form goes without it.
    """
    entries = json.loads(header)
    entries["__metadata__"] = {**entries["__metadata__"], "approximates": approximates}
    encoded = _json(entries).encode()
    return encoded + b" " * (-(len(encoded) + 8) % _ALIGNMENT)


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
