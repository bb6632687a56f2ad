"""How a board file travels: in one gzip stream (RFC 1952), which becomes the board file again, byte for byte."""

import gzip
import zlib
from collections.abc import Iterator
from typing import IO

from fedboard.common.boards.refusals import FeedCode, FeedRefusedError

_LEVEL = 6
_PIECE = 1 << 16
_GZIP = 31
"""What zlib calls a gzip stream with the largest window."""


def pack(board_file: bytes) -> bytes:
    """The stream of a board file; the same for the same bytes."""
    return gzip.compress(board_file, _LEVEL, mtime=0)


def unpack(packed: IO[bytes], *, board_size: int) -> Iterator[bytes]:
    """The board file that was packed, in pieces; it is as long as was stated, or refused.

    Args:
        packed: a file, at its beginning, whose SHA-256 was checked.
        board_size: size in bytes of what comes out, from the signed manifest; no more than one byte more is made.

    Raises:
        FeedRefusedError: ``malformed``.
    """
    inflate, left, piece = zlib.decompressobj(_GZIP), board_size, b""
    try:
        while not inflate.eof:
            more = inflate.unconsumed_tail or packed.read(_PIECE)
            piece = inflate.decompress(more, min(left + 1, _PIECE))
            left -= len(piece)
            if left < 0 or not (more or piece):
                raise FeedRefusedError(FeedCode.MALFORMED)
            yield piece
    except zlib.error as error:
        raise FeedRefusedError(FeedCode.MALFORMED) from error
    if left or inflate.unused_data or packed.read(1):
        raise FeedRefusedError(FeedCode.MALFORMED)
