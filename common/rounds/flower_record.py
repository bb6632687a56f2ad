"""Our messages as Flower carries them: opaque bytes, small ones in one part, others in arrays that Flower cuts.

Flower pushes, pulls and names each part of a message by itself, at some 15 ms of CPU in all. Bytes in an array are
three parts, bytes in a configuration one, which is never cut: so these are for messages that are small.
"""

from typing import Final

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

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
