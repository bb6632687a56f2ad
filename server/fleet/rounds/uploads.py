"""Replies that are still being uploaded, or whose sender went away meanwhile: looked at again, never waited for.

Flower hands a reply over once it is announced, and then waits up to two hours for its parts: one device that is
switched off in the middle would hold up the whole round. So a reply of which parts are missing is set aside here,
and its node is asked again like any other that has not answered. What it weighs is counted before it is put
together (``fedboard.common.rounds.flower_parts``).
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
from flwr.app import Message
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
from flwr.superlink.grid import http_grid

from fedboard.common.rounds.flower_parts import CountedParts, message_of

_TOGETHER_BYTES = 1 << 28
"""Of the replies that one look brings, unless a single one may be larger."""


@dataclass(slots=True)
class Upload:
    """The parts of one reply, by name, and where they are to be had."""

    parts: list[str]
    """The last one is the reply itself."""
    pull: Callable[[str], bytes]
    largest: int
    """Most bytes of all parts."""
    _missing: list[str] = field(default_factory=list)

    def message(self) -> Message | None:
        """The reply; None as long as a part is missing.

        Raises:
            RefusedError: it is too large.
            Exception: Flower cannot read it.
        """
        counted = CountedParts(self.pull, self.largest)
        what_was_missing_first = sorted(self.parts, key=lambda part: part not in self._missing)
        try:
            contents = counted.all(what_was_missing_first)
        except ObjectPullError:
            self._missing = counted.missing
            return None
        return message_of(contents, self.parts[-1])


@dataclass(slots=True)
class _Look:
    """What one look at the replies may bring."""

    largest: int = sys.maxsize
    left: int = sys.maxsize


_look = _Look()
_unfinished: list[Upload] = []


def set_unfinished_aside() -> None:
    """From now on Flower's grid reports a reply of which parts are missing, or that is larger than the look allows,
    at once, as an error in its place.
    """
    http_grid.pull_objects = _pulled_at_once  # type: ignore[assignment, attr-defined]


def limit_look(largest: int | None) -> None:
    """Before each look: no reply may be larger, and all together not much.

    Args:
        largest: most bytes of a reply's content; None: any.
    """
    if largest is None:
        _look.largest = _look.left = sys.maxsize
        return
    _look.largest = largest + largest // 64 + (1 << 16)  # what Flower writes around it
    _look.left = max(_TOGETHER_BYTES, _look.largest)


def _pulled_at_once(object_ids: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
    counted = CountedParts(pull_object_fn, min(_look.largest, _look.left))
    try:
        contents = counted.all(object_ids)
    except (OSError, httpx.HTTPError):
        raise
    except Exception:  # what is wrong with it turns out when it is pulled alone
        _unfinished.append(Upload(object_ids, pull_object_fn, _look.largest))
        raise ObjectPullError(object_ids[-1], "set aside") from None
    _look.left -= counted.taken
    return contents


def take_unfinished() -> list[Upload]:
    """Those that were set aside since the last call, in the order of their errors."""
    found = list(_unfinished)
    _unfinished.clear()
    return found
