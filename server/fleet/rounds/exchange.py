"""Asking nodes, over a Flower grid or at the door, so that one bad reply is one bad reply and nothing more."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import httpx
from flwr.app import Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fedboard.common.rounds.flower_parts import frame_of, record_of
from fedboard.common.rounds.question import ROUND
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.server.fleet.line.asking import Asking, Line
from fedboard.server.fleet.line.messages import LineError
from fedboard.server.fleet.rounds.uploads import Upload, limit_look, take_unfinished

_PULLED_AT_ONCE = 64
FIRST_DIRECT: Final = -1
"""Number of the first node that comes to the door itself; the others follow below it, and Flower's are above."""


def is_direct(number: int) -> bool:
    """Whether a node of this number comes to the door itself."""
    return number <= FIRST_DIRECT


def _nobody(numbers: Iterable[int]) -> dict[int, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from a node: our bytes, or why there are none."""

    node_id: int
    content: bytes | None
    failure: Refusal | None = None
    heard: bool = field(default=False, compare=False)
    """Whether the node itself has sent it, and not somebody who speaks of the node."""


@dataclass(slots=True)
class Exchange:
    """Messages under way. Flower's own ``send_and_receive`` waits three seconds between looks."""

    grid: Grid
    largest: int | None = None
    """Most bytes of a reply; a larger one is not fetched to its end. None: any."""
    line: Line | None = None
    """To the door, for devices that come there without Flower; None: there are none."""
    keys: Callable[[Iterable[int]], Mapping[int, str]] = _nobody
    """Public keys of those among these nodes."""
    _waiting: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Message id -> node and when it was asked."""
    _uploads: dict[str, Upload] = field(default_factory=dict)
    """Message id -> the reply to it, of which parts are missing."""
    _at_the_door: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Public key -> number of the node and when it was asked."""
    _asking: Asking | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """One asking for all devices at the door."""
        self._asking = None if self.line is None else self.line.asking()

    def ask(self, node_ids: list[int], question: bytes, *, group: str, seconds: float) -> None:
        """Send one question to these nodes; its answer is worthless after so many seconds."""
        self.send(dict.fromkeys(node_ids, question), kind=ROUND, group=group, seconds=seconds)

    def send(
        self,
        frames: Mapping[int, bytes],
        *,
        beside: bytes | None = None,
        kind: str,
        group: str,
        seconds: float,
    ) -> None:
        """Send each node its message; replies are worthless after so many seconds.

        Args:
            frames: by the node's number.
            beside: the board that travels beside them.
            kind: of the messages.
            group: name of the question, for Flower.
            seconds: how long a reply is worth anything.
        """
        direct = {number: frame for number, frame in frames.items() if is_direct(number)}
        if direct:
            self._send_directly(direct, beside, kind=kind, seconds=seconds)
        node_ids = [number for number in frames if not is_direct(number)]
        if not node_ids:
            return
        records = {frame: record_of(frame, beside) for frame in {frames[node] for node in node_ids}}
        messages = [
            Message(records[frames[node]], node, kind, ttl=seconds, group_id=group) for node in node_ids
        ]
        now = time.monotonic()
        try:
            ids = list(self.grid.push_messages(messages))
        except (OSError, httpx.HTTPError):
            return  # nobody was asked; whoever has not answered is asked again
        for node, message_id in zip(node_ids, ids, strict=False):
            if message_id:
                self._waiting[message_id] = (node, now)

    def _send_directly(
        self, frames: Mapping[int, bytes], beside: bytes | None, *, kind: str, seconds: float
    ) -> None:
        assert self._asking is not None  # else nobody would be known to be at the door
        keys, now = self.keys(frames), time.monotonic()
        try:
            self._asking.ask(
                {key: frames[number] for number, key in keys.items()},
                beside=beside,
                kind=kind,
                largest=sys.maxsize if self.largest is None else self.largest,
                seconds=seconds,
            )
        except LineError:
            return  # nobody was asked
        self._forget_lost()
        self._at_the_door |= {key: (number, now) for number, key in keys.items()}

    def waiting_for(self, *, since: float = 0.0) -> set[int]:
        """Nodes that were asked at ``since`` (``time.monotonic``) or later and have not replied."""
        waiting = (*self._waiting.values(), *self._at_the_door.values())
        return {node for node, asked in waiting if asked >= since}

    def replies(self) -> Iterator[Reply]:
        """What has come since the last look."""
        yield from self._answered()
        for message_id in list(self._uploads):
            yield from self._uploaded(message_id)
        ids = [message_id for message_id in self._waiting if message_id not in self._uploads]
        for start in range(0, len(ids), _PULLED_AT_ONCE):
            yield from self._pulled(ids[start : start + _PULLED_AT_ONCE])

    def forget(self) -> None:
        """Stop waiting; what comes later is never looked at."""
        self._waiting.clear()
        self._uploads.clear()
        if self._at_the_door and self._asking is not None:
            self._asking.end()
        self._at_the_door.clear()

    def _answered(self) -> Iterator[Reply]:
        """What devices have handed in at the door, which knows who they are."""
        if self._asking is None or not self._at_the_door:
            return
        more = True
        while more:
            try:
                found = self._asking.answers()
            except LineError:
                return  # it is looked at again
            more = bool(found)
            for one in found:
                asked = self._at_the_door.pop(one.key, None)
                if asked is not None:
                    yield Reply(asked[0], one.content, heard=True)
        self._forget_lost()

    def _forget_lost(self) -> None:
        """Where the door has started again, nobody there knows of what was asked before: it is asked again."""
        if self._asking is not None and self._asking.lost():
            self._at_the_door.clear()

    def _uploaded(self, message_id: str) -> Iterator[Reply]:
        """The reply, if the rest of it has come."""
        try:
            message = self._uploads[message_id].message()
        except (OSError, httpx.HTTPError):
            return  # the link is down; it is looked at again
        except Exception as error:  # too large, or something in a reply that Flower cannot read
            code = error.code if isinstance(error, RefusedError) else Refusal.MALFORMED
            del self._uploads[message_id]
            yield Reply(self._waiting.pop(message_id)[0], None, code)
            return
        if message is not None:
            del self._uploads[message_id]
            yield _reply(self._waiting.pop(message_id)[0], message)

    def _pulled(self, ids: list[str]) -> Iterator[Reply]:
        take_unfinished()  # those of a look that failed are asked for again
        limit_look(self.largest)
        try:
            messages = list(self.grid.pull_messages(ids))
        except (OSError, httpx.TransportError):
            return  # the link is down; it is looked at again
        except Exception as error:  # something in a reply that Flower cannot read
            if len(ids) > 1:
                for one in ids:
                    yield from self._pulled([one])
                return
            if isinstance(error, httpx.HTTPStatusError):
                return  # the SuperLink failed, maybe not for ever
            node, _ = self._waiting.pop(ids[0])
            yield Reply(node, None, Refusal.MALFORMED)
            return
        unfinished = iter(take_unfinished())
        for message in messages:
            name = message.metadata.reply_to_message_id
            if _is_unfinished(message) and (upload := next(unfinished, None)) and name in self._waiting:
                self._uploads[name] = upload
                continue
            asked = self._waiting.pop(name, None)
            if asked is not None:
                yield _reply(asked[0], message)


def _is_unfinished(message: Message) -> bool:
    return message.has_error() and message.error.code == ErrorCode.MESSAGE_UNAVAILABLE


def _reply(node_id: int, message: Message) -> Reply:
    of_node = message.metadata.src_node_id == node_id
    if message.has_error():  # its text comes from the other side and goes nowhere
        return Reply(node_id, None, Refusal.UNREACHABLE, heard=of_node)
    if not of_node:
        return Reply(node_id, None, Refusal.UNKNOWN_NODE)
    content = frame_of(message.content)
    return Reply(node_id, content, None if content is not None else Refusal.MALFORMED, heard=True)
