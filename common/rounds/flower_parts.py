"""Our messages as Flower carries them: opaque bytes, small ones in one part, others in arrays that Flower cuts.

Flower pushes, pulls and names each part of a message by itself, at some 15 ms of CPU in all. Bytes in an array are
three parts, bytes in a configuration one, which is never cut: so these are for messages that are small.

The parts of a message as Flower carries them: counted as they come, and weighed before they are put together.

Flower cuts a message into named parts and does not ask how large it is before it puts it together in memory: an
array may name the same part a million times, so that one megabyte on the wire becomes a terabyte, and a
configuration may hold millions of numbers, each of which becomes an object. Both sides therefore fetch parts here,
up to a limit, and count what an array will be before it is made. A message of ours is made of few kinds of parts,
and of at most two configurations, small ones, that hold bytes and nothing else; anything else is refused unread.

Memory: at most three times the limit, beside the few parts that are under way.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.app.message.arraychunk import ArrayChunk
from flwr.proto.recorddict_pb2 import ConfigRecord as StoredConfigurations
from flwr.supercore.inflatable.inflatable_object import (
    get_object_body,
    get_object_head_values_from_object_content,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectUnavailableError,
    inflate_object_from_contents,
    pull_objects,
)

from fedboard.common.wire.refusals import Refusal, RefusedError

SERVER: Final = "fedboard.server"
"""The record beside a question in a Flower app of somebody's own: the server's public key."""
SMALL_BYTES: Final = 1 << 16
"""Most of a message, with a board, that goes in configurations: for Flower they cost 20 us a KB, arrays a tenth."""
FRAME: Final = "frame"
"""What bytes are called in a record."""
_RECORD, _BOARD = "fedboard", "board"
_STORED_AS = "fedboard.frame"


def record_of(frame: bytes, board: bytes | None = None) -> RecordDict:
    """A message of ours as Flower carries it.

    Args:
        frame: the message.
        board: what many messages have in common; Flower stores equal bytes once.
    """
    if len(frame) + len(board or b"") <= SMALL_BYTES:
        beside = {} if board is None else {_BOARD: ConfigRecord({FRAME: board})}
        return RecordDict({_RECORD: ConfigRecord({FRAME: frame}), **beside})
    arrays = {FRAME: _array(frame)} if board is None else {FRAME: _array(frame), _BOARD: _array(board)}
    return RecordDict({_RECORD: ArrayRecord(arrays)})


def _array(content: bytes) -> Array:
    return Array(dtype="uint8", shape=(len(content),), stype=_STORED_AS, data=content)


def frame_of(record: RecordDict) -> bytes | None:
    """The message in a record that holds nothing else; None where there is none."""
    found = frames_of(record)
    return None if found is None or found[1] is not None else found[0]


def frames_of(record: RecordDict) -> tuple[bytes, bytes | None] | None:
    """The message in a record and the board beside it, if one is; None where there is no message."""
    held = record.get(_RECORD)
    if isinstance(held, ConfigRecord):
        frame, board = _bytes_of(held), _bytes_of(record[_BOARD]) if _BOARD in record else None
        return None if frame is None or (board is None and _BOARD in record) else (frame, board)
    if not isinstance(held, ArrayRecord) or not {FRAME} <= set(held) <= {FRAME, _BOARD}:
        return None
    if any(array.stype != _STORED_AS for array in held.values()):
        return None
    return held[FRAME].data, held[_BOARD].data if _BOARD in held else None


def _bytes_of(record: object) -> bytes | None:
    """What a configuration of ours holds; None where it is another one, or no configuration."""
    if not isinstance(record, ConfigRecord) or set(record) != {FRAME}:
        return None
    content = record[FRAME]
    return content if isinstance(content, bytes) else None


PART_BYTES = 256
"""What a part costs besides its content."""
_KINDS = frozenset(
    kind.__qualname__ for kind in (Message, RecordDict, ArrayRecord, Array, ArrayChunk, ConfigRecord)
)
_MOST_CONFIGURATIONS = 2
"""Of a message: itself and a board."""


@dataclass(slots=True)
class CountedParts:
    """Fetches the parts of one message, up to so many bytes; from several threads."""

    pull: Callable[[str], bytes]
    """Gives a part by its name, or raises what Flower's own does."""
    limit: int
    """Most bytes, as they come and as they are put together."""
    taken: int = 0
    missing: list[str] = field(default_factory=list)
    """Parts that are not there yet."""
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, part: str) -> bytes:
        """Fetch one.

        Raises:
            RefusedError: ``too-large``.
            Exception: what ``pull`` raises.
        """
        if self.taken >= self.limit:
            raise RefusedError(Refusal.TOO_LARGE)
        try:
            content = self.pull(part)
        except ObjectUnavailableError:
            self.missing.append(part)
            raise
        with self._lock:
            self.taken += len(content) + PART_BYTES
        if self.taken > self.limit:
            raise RefusedError(Refusal.TOO_LARGE)
        return content

    def all(
        self, parts: list[str], *, tries: int | None = 1, seconds: float | None = None, at_once: int = 8
    ) -> dict[str, bytes]:
        """The content of these parts, which together make no more than the limit.

        Args:
            parts: their names.
            tries: how often a part is asked for that is not there yet; None: until the time is over.
            seconds: how long that may take; None: without end.
            at_once: how many parts are fetched at the same time.

        Raises:
            ObjectPullError: one is missing.
            RefusedError: they are too large, or one is of a kind that no message of ours has.
            Exception: one cannot be read.
        """
        contents = pull_objects(
            parts,
            self,
            max_concurrent_pulls=at_once,
            max_time=seconds,
            max_tries_per_object=tries,
            initial_backoff=0.1,
        )
        self.taken = max(self.taken, _put_together(contents))
        if self.taken > self.limit:
            raise RefusedError(Refusal.TOO_LARGE)
        return contents


def message_of(contents: dict[str, bytes], name: str) -> Message:
    """The message that these parts make.

    Args:
        contents: as ``CountedParts.all`` gave them; parts are taken out as they are put together.
        name: of the part that is the message itself.

    Raises:
        TypeError: it is no message.
        Exception: Flower cannot read it.
    """
    found = inflate_object_from_contents(name, contents)
    if not isinstance(found, Message):
        raise TypeError("parts that make no message")
    found.metadata.__dict__["_message_id"] = name
    return found


def _put_together(contents: Mapping[str, bytes]) -> int:
    """Bytes of all arrays, as Flower will make them."""
    total = configurations = 0
    for content in contents.values():
        kind, parts, _ = get_object_head_values_from_object_content(content)
        if kind not in _KINDS:
            raise RefusedError(Refusal.MALFORMED)
        if kind == ConfigRecord.__qualname__:
            configurations += 1
            if configurations > _MOST_CONFIGURATIONS or not _holds_bytes(content):
                raise RefusedError(Refusal.MALFORMED)
        if kind == Array.__qualname__:
            order = json.loads(get_object_body(content, Array))["arraychunk_ids"]
            total += sum(len(contents[parts[number]]) for number in order)
    return total


def _holds_bytes(content: bytes) -> bool:
    """Whether a configuration is one of ours; a large one is not even read, since each number in it takes room."""
    if len(content) > SMALL_BYTES + PART_BYTES:
        return False
    items = StoredConfigurations.FromString(get_object_body(content, ConfigRecord)).items
    return len(items) == 1 and items[0].key == FRAME and items[0].value.WhichOneof("value") == "bytes"
