"""Replies that are still being uploaded, or whose sender went away meanwhile: looked at again, never waited for.

Flower hands a reply over once it is announced, and then waits up to two hours for its parts: one device that is
switched off in the middle would hold up the whole round. So a reply of which parts are missing is set aside here,
and its node is asked again like any other that has not answered.
"""

from collections.abc import Callable
from dataclasses import dataclass

from flwr.app import Message
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    inflate_object_from_contents,
    pull_objects,
)
from flwr.superlink.grid import http_grid


@dataclass(frozen=True, slots=True)
class Upload:
    """The parts of one reply, by name, and where they are to be had."""

    parts: list[str]
    """The last one is the reply itself."""
    pull: Callable[[str], bytes]

    def message(self) -> Message | None:
        """The reply; None as long as a part is missing.

        Raises:
            Exception: Flower cannot read it.
        """
        try:
            contents = pull_objects(self.parts, self.pull, max_tries_per_object=1)
        except ObjectPullError:
            return None
        found = inflate_object_from_contents(self.parts[-1], contents)
        if not isinstance(found, Message):
            raise TypeError("a reply that is no message")
        found.metadata.__dict__["_message_id"] = self.parts[-1]
        return found


_unfinished: list[Upload] = []


def set_unfinished_aside() -> None:
    """From now on Flower's grid reports a reply of which parts are missing at once, as an error in its place."""
    http_grid.pull_objects = _pulled_at_once


def _pulled_at_once(object_ids: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
    try:
        return pull_objects(object_ids, pull_object_fn, max_tries_per_object=1)
    except ObjectPullError:
        _unfinished.append(Upload(object_ids, pull_object_fn))
        raise


def take_unfinished() -> list[Upload]:
    """Those that were set aside since the last call, in the order of their errors."""
    found = list(_unfinished)
    _unfinished.clear()
    return found


__all__ = ["Upload", "set_unfinished_aside", "take_unfinished"]
