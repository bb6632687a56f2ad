"""Exact sums on their way through a cluster: cut into lanes, and each part says whose users are in it, once."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedboard.common.arrays import IntArray
from fedboard.common.contribution import Request
from fedboard.common.errors import PrivacyError
from fedboard.server.runtime import item_blocks
from fedboard.simulations.streams.merging import add_within_64_bits, bounds_of

MOST_LANES = 64
"""A catalogue is cut into no more blocks than this: each is an object of every task."""


@dataclass(frozen=True, slots=True, order=True)
class Counted:
    """One computation of the sums over users ``start:stop``."""

    start: int
    stop: int
    digest: bytes
    """Of all that it summed, in every lane."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Some rows of some releases: what is merged, noised and solved in one place. Public."""

    names: tuple[str, ...]
    start: int
    stop: int

    def rows(self, sums: IntArray) -> IntArray:
        """Those of a release that lie in this lane."""
        return sums[self.start : self.stop]


def lanes_of(requests: Sequence[Request], *, at_least: int = 1) -> tuple[Lane, ...]:
    """The lanes of a round: what is no item's first, then blocks of items.

    Args:
        requests: of the round.
        at_least: how many blocks there should be, where there are as many items.
    """
    whole = [r for r in requests if not r.source.per_item]
    per_item = [r for r in requests if r.source.per_item]
    lanes = [Lane((r.name,), 0, r.release.rows) for r in whole]
    if per_item:
        names = tuple(r.name for r in per_item)
        rows = per_item[0].release.rows
        blocks = item_blocks(per_item, at_least=at_least)
        if len(blocks) > MOST_LANES:
            size = -(-rows // MOST_LANES)
            blocks = [(start, min(start + size, rows)) for start in range(0, rows, size)]
        lanes += [Lane(names, *block) for block in blocks]
    return tuple(lanes)


@dataclass(frozen=True, slots=True)
class Part:
    """Exact sums in one lane over the users of some spans. Secret."""

    sums: Mapping[str, IntArray]
    """By release name, int64, shape (rows of the lane, width)."""
    counted: tuple[Counted, ...]
    """Whose they are, ascending."""


def parts_of(sums: Mapping[str, IntArray], lanes: Sequence[Lane], start: int, stop: int) -> list[Part]:
    """The sums over one span, by lane.

    Args:
        sums: by release name, int64, shape (rows, width). Secret.
        lanes: of the round.
        start: first user.
        stop: one past the last.
    """
    counted = (Counted(start, stop, digest_of(sums)),)
    return [Part({name: lane.rows(sums[name]) for name in lane.names}, counted) for lane in lanes]


def merged(parts: Sequence[Part]) -> Part:
    """Their sum.

    Raises:
        PrivacyError: somebody would be counted twice, or the sums leave no room in 64 bits.
    """
    counted = tuple(sorted(one for part in parts for one in part.counted))
    for before, after in pairwise(counted):
        if after.start < before.stop:
            raise PrivacyError(
                f"users {after.start}:{min(before.stop, after.stop)} would be counted twice; nothing was released"
            )
    sums = {name: np.array(values) for name, values in parts[0].sums.items()}
    bounds = bounds_of(sums)
    for part in parts[1:]:
        add_within_64_bits(sums, part.sums, bounds)
    return Part(sums, counted)


def require_same(counted: tuple[Counted, ...], expected: tuple[Counted, ...]) -> None:
    """See that a lane's sums are those computations, no others.

    Where a span was computed twice and came out differently, one lane might hold the first and another the second,
    and a user's rows of the two together need not keep her bound.

    Raises:
        PrivacyError: they are others.
    """
    if counted == expected:
        return
    other = sorted(set(counted) ^ set(expected))
    where = f"users {other[0].start}:{other[0].stop}" if other else "some users"
    raise PrivacyError(
        f"the sums over {where} were computed again after a node was lost and came out differently; nothing was "
        "released. Take nodes with CPUs of one make, then go on with --resume"
    )


def digest_of(sums: Mapping[str, IntArray]) -> bytes:
    """Of exact sums; tells two computations apart, and is as secret as they are."""
    found = hashlib.blake2b(digest_size=16)
    for name in sorted(sums):
        values = np.ascontiguousarray(sums[name])
        found.update(f"{name}\0{values.dtype.str}\0{values.shape}\0".encode())
        found.update(values.data)
    return found.digest()
