"""The files of a mirror, and how a board file is packed.

A mirror is a folder that any web server can serve, and that the gRPC service reads. ``manifests/<SHA-256>.json`` is
the signed manifest whose content has that SHA-256; the whole chain is there, and each names the one before it.
``latest.json`` is the newest one that was published: what comes after it in the chain still wants cosignatures.
``files/<SHA-256>`` is the packed board that a manifest names: one gzip stream (RFC 1952), which becomes the board
file again, byte for byte. ``roots/2.root.json`` is the root document of version 2, where the publisher has any;
``witnesses.json`` says whose cosignatures the publisher waits for. Files, roots and the contents of manifests never
change; cosignatures are added to a manifest, and ``latest.json`` is replaced, both atomically.
"""

import gzip
import zlib
from collections.abc import Iterator
from typing import IO

from fedboard.common.boards.refusals import FeedCode, FeedRefusedError

LATEST = "latest.json"
MANIFESTS = "manifests"
FILES = "files"
ROOTS = "roots"
WITNESSES = "witnesses.json"
SEEN = "seen.json"
"""Not of a mirror: the newest signed manifest that a reader has ever verified, beside their boards."""


def manifest_name(sha256: str) -> str:
    """Where a manifest lies, from the mirror's root."""
    return f"{MANIFESTS}/{sha256}.json"


def file_name(sha256: str) -> str:
    """Where a file lies, from the mirror's root."""
    return f"{FILES}/{sha256}"


def root_name(version: int) -> str:
    """Where the root of a version lies, from the mirror's root."""
    return f"{ROOTS}/{version}.root.json"


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
