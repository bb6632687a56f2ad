"""The smaller form of a board file: compressed, and without what the reader has.

A board file is a header and typed arrays; a packed file is the same header and, for each array, one of two forms:

- ``exact``: its bytes in a deflate stream, of numbers first all first bytes, then all second ones, ..., which
  compresses better.
- ``held``: left out; the SHA-256 of the array's bytes says which one of the reader's own board it is.
"""

import hashlib
import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedboard.common.boards.refusals import FeedCode, FeedRefusedError

Bytes = NDArray[np.uint8]

_MAGIC = b"FBPACK1\n"
_LEVEL = 6
_MAX_HEADER_BYTES = 1 << 26
_PIECE = 1 << 16
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
            section = Section(name=name, dtype=entry["dtype"], content=body[start:stop])
            found.append((start, section))
    return header, [section for _, section in sorted(found, key=lambda pair: pair[0])]


def pack(board_file: Bytes, *, held: frozenset[str] = frozenset()) -> bytes:
    """Pack a board file.

    Args:
        board_file: uint8, shape (n_bytes,). Public.
        held: names of arrays that the reader has (``array_hashes`` tells); they are left out.
    """
    header, found = sections(board_file)
    parts, bodies = [], []
    for section in found:
        left_out = section.name in held
        bodies.append(b"" if left_out else zlib.compress(_split(section), _LEVEL))
        parts.append(
            _Part(
                name=section.name,
                form="held" if left_out else "exact",
                packed=len(bodies[-1]),
                size=section.content.size,
                sha256=section.sha256 if left_out else None,
            )
        )
    contents = msgspec.json.encode(_Contents(parts=tuple(parts), header=header.decode()))
    deflated = zlib.compress(contents, _LEVEL)
    lengths = len(deflated).to_bytes(4, "little") + len(contents).to_bytes(4, "little")
    return b"".join([_MAGIC, lengths, deflated, *bodies])


def array_hashes(board_file: Bytes) -> dict[str, str]:
    """SHA-256 of each array's bytes, by name."""
    return {section.name: section.sha256 for section in sections(board_file)[1]}


def unpack(packed: IO[bytes], *, board_size: int, base: Bytes | None = None) -> Iterator[memoryview]:
    """The board file that was packed, array by array, so that it never is in memory twice.

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
    width = _ITEM_BYTES[entry["dtype"]]
    n, rest = divmod(part.size, width)
    if part.form != "exact" or rest or n != math.prod(entry["shape"]):
        raise ValueError("an unknown form, or an array of another shape")
    inflated, whole = Inflated(packed, part.packed), np.empty((n, width), dtype=np.uint8)
    for place in range(width):
        whole[:, place] = np.frombuffer(inflated.read(n), dtype=np.uint8)
    inflated.end()
    return whole.reshape(-1)


def _split(section: Section) -> bytes:
    """All first bytes of the numbers, all second ones, ..."""
    return section.content.reshape(-1, _ITEM_BYTES[section.dtype]).T.tobytes()


class Inflated:
    """The next bytes of a file, inflated piece by piece; it never makes more bytes than are asked for."""

    def __init__(self, packed: IO[bytes], length: int) -> None:
        """Begin.

        Args:
            packed: where the stream begins.
            length: its bytes, packed.
        """
        self._stream, self._packed, self._left = zlib.decompressobj(), packed, length

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes.

        Raises:
            ValueError: it ends before.
        """
        pieces = []
        while size > 0:
            packed = self._stream.unconsumed_tail or self._next()
            pieces.append(self._stream.decompress(packed, size))
            size -= len(pieces[-1])
            if size > 0 and (self._stream.eof or not (packed or pieces[-1])):
                raise ValueError("an array is cut short")
        return b"".join(pieces)

    def end(self) -> None:
        """Make sure that it ends here.

        Raises:
            ValueError: it holds more, or its checksum is missing or wrong.
        """
        more = b""
        while not self._stream.eof and not more and (packed := self._stream.unconsumed_tail or self._next()):
            more = self._stream.decompress(packed, 1)
        if more or not self._stream.eof or self._stream.unused_data or self._left > 0:
            raise ValueError("an array of another size")

    def _next(self) -> bytes:
        packed = self._packed.read(min(_PIECE, self._left)) if self._left > 0 else b""
        self._left -= len(packed)
        return packed
