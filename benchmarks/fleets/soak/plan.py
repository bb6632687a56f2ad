"""What happens in a week, and when: drawn from a seed, each kind as often as it should."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

WEEK = 7
WITHHELD = 12
"""The board that a control's server keeps to itself; devices that rely on witnesses then answer nothing more."""
QUIET_SHARE = 5 / 7
"""Of the time, after which no part of the server is ended any more: so that each has a long life to be measured."""
_FIRST, _LAST = 0.03, 0.97
"""Share of the time between which things happen: the first rounds are left alone, and the last."""


@dataclass(frozen=True)
class Kind:
    """Something that may happen."""

    times: int
    """In a week."""
    ends_server: bool = False
    """Whether it ends a part of the server."""


_JOINS, _REMOVED = "a device joins", "a device is removed"
KINDS = {
    "a device joins": Kind(5),
    "a device is removed": Kind(4),
    "a device is killed": Kind(3),
    "a device is killed at a step": Kind(3),
    "a device is slow": Kind(2),
    "a device is of the version before": Kind(1),
    "the server is killed": Kind(2, ends_server=True),
    "the server is stopped and started": Kind(1, ends_server=True),
    "the server is upgraded": Kind(1, ends_server=True),
    "the SuperLink is killed": Kind(1, ends_server=True),
    "the ServerApp is killed at a step": Kind(3, ends_server=True),
    "the proxy is killed": Kind(1, ends_server=True),
    "the board service is killed": Kind(1, ends_server=True),
    "a witness is killed": Kind(2),
    "the board key is rotated": Kind(2),
    "the question key is rotated": Kind(1, ends_server=True),
    "the root is renewed": Kind(1),
    "the server's disk is full": Kind(2, ends_server=True),
    "the log's disk is full": Kind(1),
    "a device's disk is full": Kind(2),
    "a witness's disk is full": Kind(1),
    "the server's clock jumps ahead": Kind(1, ends_server=True),
    "the server's clock jumps back": Kind(1, ends_server=True),
    "a device's clock jumps": Kind(2),
    "the witnesses' clock jumps": Kind(1),
    "a backup is made": Kind(1),
}


@dataclass(frozen=True, order=True)
class Event:
    """One thing that happens."""

    at: float
    """Days since the beginning."""
    kind: str


def events(seed: int, days: float) -> list[Event]:
    """All of them, in order; the same for the same seed.

    Args:
        seed: of the order and the moments.
        days: how long it goes on; kinds happen in proportion, once at least.
    """
    chance = random.Random(f"week {seed}")
    kinds = list(_each_kind(chance, days))
    early = [name for name in kinds if KINDS[name].ends_server]
    anytime = [name for name in kinds if not KINDS[name].ends_server]
    share = len(early) / max(len(kinds), 1)
    slots = [
        _FIRST + (_LAST - _FIRST) * (n + chance.uniform(0.2, 0.8)) / len(kinds) for n in range(len(kinds))
    ]
    found = []
    for n, slot in enumerate(slots):
        left_early = sum(other < QUIET_SHARE for other in slots[n:])
        must = slot < QUIET_SHARE and len(early) >= left_early
        may = slot < QUIET_SHARE and early and (not anytime or chance.random() < share / QUIET_SHARE)
        name = (early if must or may or not anytime else anytime).pop()
        found.append(Event(slot * days, name))
    return sorted(found)


def _each_kind(chance: random.Random, days: float) -> Iterator[str]:
    """Their names, as often as they happen, in any order; somebody joins before somebody is removed."""
    names = [name for name, kind in KINDS.items() for _ in range(math.ceil(kind.times * days / WEEK))]
    chance.shuffle(names)
    comings = [place for place, name in enumerate(names) if name in (_JOINS, _REMOVED)]
    in_turns = _alternating(names.count(_JOINS), names.count(_REMOVED))
    for place, name in zip(comings, in_turns, strict=True):
        names[place] = name
    yield from reversed(names)


def _alternating(joins: int, removals: int) -> list[str]:
    """Two come before the first goes."""
    found: list[str] = []
    while len(found) < joins + removals:
        may_go = found.count(_REMOVED) < removals and len(found) >= 2 and found[-1] == _JOINS
        must_go = found.count(_JOINS) == joins
        found.append(_REMOVED if may_go or must_go else _JOINS)
    return found
