"""What is kept of a round that is not over, so that a killed run goes on within it: exact sums, and so a secret.

One file of a run with seeded noise, which protects nobody anyway. A run whose noise is secret keeps nothing:
whoever reads exact sums of many users beside the noised ones has undone the noise, and a file sealed with a key
that only the process has would be of no use to anybody once the process is gone.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import msgspec
import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Request
from fedboard.common.errors import InputError
from fedboard.simulations.engine.merging import SpanSums, require_apart

_TITLE = (
    b"fedboard partial sums 1\n"
    b"SECRET: exact sums over users, without noise. It is for this run alone, which deletes it when the round is "
    b"released. Do not copy or publish it.\n"
)
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundKey:
    """What decides about the sums of a round: all of it, so that what was summed for another is never added."""

    board: str
    """Digest of the board that is asked about; settings, items and round are in it."""
    requests: str
    """Digest of what is asked, with what the releases state about who takes part."""
    data: str
    """``UserStream.identity``."""
    split: str
    """Digest of the splitting."""
    levels: str
    """Digest of the personal levels."""
    coins: str
    """Digest of where the coins that decide who takes part come from."""
    kernels: str
    """Which code computes: versions agree to rounding alone."""
    software: str
    """Version of fedboard."""


_WORDS = {
    "requests": "questions",
    "data": "ratings",
    "split": "split",
    "levels": "personal levels",
    "coins": "seed",
    "kernels": "kernels (run.kernels)",
    "software": "version of fedboard",
}


def digest_of(value: object) -> str:
    """Of what prints in full, such as a frozen dataclass of numbers and texts."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


def requests_digest(requests: Iterable[Request]) -> str:
    """Of sources and releases, as they are booked."""
    asked = [{"source": str(r.source), **r.release.event()} for r in requests]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class PartialSums:
    """The file of one run. Nobody else may write it while the run is going on."""

    path: Path

    def save(self, key: RoundKey, sums: SpanSums) -> None:
        """Write all that is summed so far; what was there is replaced, whole or not at all.

        The file is its owner's alone (mode 0600) from its first byte on.
        """
        shapes = {name: (values.shape[0], values.shape[1]) for name, values in sums.sums.items()}
        header = _Header(key=key, told=replace(sums, sums={}), shapes=shapes)
        told = msgspec.json.encode(header)
        arrays = (np.ascontiguousarray(sums.sums[name], dtype="<i8").data for name in sorted(sums.sums))
        found = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        with _written_whole(self.path) as stream:
            parts: Iterable[bytes | memoryview] = (_TITLE, len(told).to_bytes(8, "little"), told, *arrays)
            for part in parts:
                found.update(part)
                stream.write(part)
            stream.write(found.digest())

    def load(self, key: RoundKey, shapes: Mapping[str, tuple[int, int]]) -> SpanSums | None:
        """What was summed for this very round before; None where nothing was, or for another board.

        Args:
            key: of the round.
            shapes: by release name: rows and width.

        Raises:
            InputError: the file is cut short or altered, or what it was begun with is not what there is now.
        """
        try:
            found = _read(self.path, shapes, of_board=key.board)
        except FileNotFoundError:
            return None
        except (ValueError, msgspec.MsgspecError, RecursionError):
            raise InputError(
                f"{self.path}: the partial sums of a round are cut short or altered, so nothing of them is used; "
                "delete the file to begin the round anew"
            ) from None
        if found is None:  # its round is over: its board is there, and this file was not deleted in time
            self.delete()
            return None
        stored, sums = found
        different = [name for name in _WORDS if getattr(stored, name) != getattr(key, name)]
        if different:
            others = " and other ".join(_WORDS[name] for name in different)
            raise InputError(
                f"{self.path}: this round was begun with another {others}; restore what it was begun with, or "
                "delete the file to begin the round anew"
            )
        return sums

    def delete(self) -> None:
        """Remove it, where it is."""
        for path in (self.path, _part_of(self.path)):
            with suppress(FileNotFoundError):
                path.unlink()


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: RoundKey
    told: SpanSums
    """Without the sums, which stand behind it."""
    shapes: dict[str, tuple[int, int]]


def _read(
    path: Path, shapes: Mapping[str, tuple[int, int]], *, of_board: str
) -> tuple[RoundKey, SpanSums] | None:
    """None where the sums are of another board.

    Raises:
        ValueError: it is not as ``save`` leaves it.
    """
    content = np.memmap(path, np.uint8, "r")
    body, at = content[:-_DIGEST_BYTES], len(_TITLE) + 8
    digest = hashlib.blake2b(body.data, digest_size=_DIGEST_BYTES).digest()
    if digest != content[-_DIGEST_BYTES:].tobytes() or body[: len(_TITLE)].tobytes() != _TITLE:
        raise ValueError
    behind = at + int.from_bytes(body[len(_TITLE) : at].tobytes(), "little")
    header = msgspec.json.decode(body[at:behind].tobytes(), type=_Header)
    if header.key.board != of_board:
        return None
    if header.shapes != dict(shapes):  # nothing is made room for that was not asked
        raise ValueError
    arrays: dict[str, IntArray] = {}
    for name, (rows, width) in sorted(shapes.items()):
        at, behind = behind, behind + 8 * rows * width
        arrays[name] = body[at:behind].view("<i8").astype(np.int64).reshape(rows, width)
    if behind != body.size:
        raise ValueError
    require_apart(header.told.spans)
    return header.key, replace(header.told, sums=arrays)


def _part_of(path: Path) -> Path:
    return path.with_name(path.name + ".part")


@contextmanager
def _written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of another when it is whole and durable, readable by its owner alone."""
    part = _part_of(path)
    with suppress(FileNotFoundError):  # of a process that was killed; O_EXCL follows nobody's link
        part.unlink()
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(part, path)
