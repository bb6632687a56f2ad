"""The files that one board is offered as: exact, packed, rounded, and without what earlier boards hold too."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.board import Board
from fedboard.common.boards.manifest import BoardFile, Deviation, Encoding
from fedboard.common.boards.packing import Packed, pack, restored_hashes
from fedboard.server.publishing.deviation import deviation_of

MOST_BASES = 8
"""How many earlier boards are looked at for what a reader may have already."""
_WORTH = 0.9
"""A smaller file is offered where it takes at most this share of the one that it stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A file and what the manifest says of it. Public."""

    content: bytes
    file: BoardFile


def encoded(path: Path, *, bases: Mapping[int, Path]) -> list[Offered]:
    """All files of a board that are worth offering; the first is the board file itself.

    Arrays that a round changes differ in every number (noise is drawn afresh), so differences to the board before
    compress no better than the numbers themselves; what saves is to leave out the arrays that did not change.

    Args:
        path: of the board file.
        bases: earlier boards of the run, by version.
    """
    exact = _read(path)
    board = Board.from_bytes(exact)
    unpacked = exact.tobytes()
    offered = [_offered(unpacked, unpacked, Encoding.EXACT, board.digest)]
    for encoding in (Encoding.PACKED, Encoding.FLOAT16, Encoding.INT8):
        whole = pack(exact, encoding, approximates=board.digest)
        deviation, digest = None, board.digest
        if encoding is not Encoding.PACKED:
            rounded = Board.from_bytes(np.frombuffer(whole.board_file, dtype=np.uint8))
            deviation, digest = deviation_of(board, rounded), rounded.digest
        file = _offered(whole.content, whole.board_file, encoding, digest, deviation=deviation)
        smaller = _without_held(exact, board, encoding, bases)
        if file.file.size <= _WORTH * exact.size:
            offered.append(file)
        if smaller and len(smaller[0].content) <= _WORTH * file.file.size:
            packed, versions = smaller
            offered.append(
                _offered(
                    packed.content, whole.board_file, encoding, digest, deviation=deviation, bases=versions
                )
            )
    return offered


def _without_held(
    exact: NDArray[Any], board: Board, encoding: Encoding, bases: Mapping[int, Path]
) -> tuple[Packed, tuple[int, ...]] | None:
    """The board without the arrays that the newest base holds too, and the versions that hold them all."""
    if not bases:
        return None
    wanted = restored_hashes(exact, encoding)
    hashes = {version: restored_hashes(_read(path), encoding) for version, path in bases.items()}
    newest = hashes[max(hashes)]
    held = frozenset(name for name, digest in wanted.items() if newest.get(name) == digest)
    fitting = [
        version for version, found in hashes.items() if all(found.get(name) == wanted[name] for name in held)
    ]
    return pack(exact, encoding, held=held, approximates=board.digest), tuple(sorted(fitting))


def _offered(
    content: bytes,
    board_file: bytes,
    encoding: Encoding,
    digest: str,
    *,
    deviation: Deviation | None = None,
    bases: tuple[int, ...] = (),
) -> Offered:
    return Offered(
        content=content,
        file=BoardFile(
            encoding=encoding,
            size=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            bases=bases,
            board_size=len(board_file),
            board_sha256=hashlib.sha256(board_file).hexdigest(),
            board_digest=digest,
            deviation=deviation,
        ),
    )


def _read(path: Path) -> NDArray[Any]:
    return np.memmap(path, dtype=np.uint8, mode="r")
