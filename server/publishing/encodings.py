"""The files that one board is offered as: exact, packed, and without what earlier boards hold too."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedboard.common.boards.manifest import BoardFile, Encoding
from fedboard.common.boards.packing import array_hashes, pack

MOST_BASES = 8
"""How many earlier boards are looked at for what a reader may have already."""
_WORTH = 0.9
"""A smaller file is offered where it takes at most this share of the one that it stands for."""


def encoded(path: Path, *, bases: Mapping[int, Path]) -> list[tuple[bytes, BoardFile]]:
    """All files of a board that are worth offering, each with what the manifest says of it; the first is the board
    file itself.

    Arrays that a round changes differ in every number (noise is drawn afresh), so differences to the board before
    compress no better than the numbers themselves; what saves is to leave out the arrays that did not change.

    Args:
        path: of the board file.
        bases: earlier boards of the run, by version.
    """
    exact = _read(path)
    unpacked, packed = exact.tobytes(), pack(exact)
    made = [(Encoding.EXACT, unpacked, ())]
    if len(packed) <= _WORTH * len(unpacked):
        made.append((Encoding.PACKED, packed, ()))
    if bases:
        since, versions = _without_held(exact, bases)
        if len(since) <= _WORTH * len(packed):
            made.append((Encoding.PACKED, since, versions))
    whole = hashlib.sha256(unpacked).hexdigest()
    return [
        (
            content,
            BoardFile(
                encoding=encoding,
                size=len(content),
                sha256=hashlib.sha256(content).hexdigest(),
                bases=versions,
                board_size=len(unpacked),
                board_sha256=whole,
            ),
        )
        for encoding, content, versions in made
    ]


def _without_held(exact: NDArray[Any], bases: Mapping[int, Path]) -> tuple[bytes, tuple[int, ...]]:
    """The board without the arrays that the newest base holds too, and the versions that hold them all."""
    wanted = array_hashes(exact)
    hashes = {version: array_hashes(_read(path)) for version, path in bases.items()}
    newest = hashes[max(hashes)]
    held = frozenset(name for name, digest in wanted.items() if newest.get(name) == digest)
    fitting = [
        version for version, found in hashes.items() if all(found.get(name) == wanted[name] for name in held)
    ]
    return pack(exact, held=held), tuple(sorted(fitting))


def _read(path: Path) -> NDArray[Any]:
    return np.memmap(path, dtype=np.uint8, mode="r")
