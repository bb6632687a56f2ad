"""Our messages as Flower carries them: opaque bytes in arrays, which Flower cuts and, where equal, stores once.

For apps of Flower's own users and for simulations; the devices of a fleet speak without it.
"""

from typing import Final

from flwr.app import Array, ArrayRecord, RecordDict

SERVER: Final = "fedboard.server"
"""The record beside a question in a Flower app of somebody's own: the server's public key."""
_RECORD, _FRAME, _BOARD = "fedboard", "frame", "board"
_STORED_AS = "fedboard.frame"


def record_of(frame: bytes, board: bytes | None = None) -> RecordDict:
    """A message of ours as Flower carries it.

    Args:
        frame: the message.
        board: what many messages have in common.
    """
    beside = {} if board is None else {_BOARD: _array(board)}
    return RecordDict({_RECORD: ArrayRecord({_FRAME: _array(frame), **beside})})


def _array(content: bytes) -> Array:
    return Array(dtype="uint8", shape=(len(content),), stype=_STORED_AS, data=content)


def frame_of(record: RecordDict) -> bytes | None:
    """The message in a record that holds nothing else; None where there is none."""
    found = frames_of(record)
    return None if found is None or found[1] is not None else found[0]


def frames_of(record: RecordDict) -> tuple[bytes, bytes | None] | None:
    """The message in a record and the board beside it, if one is; None where there is no message."""
    held = record.get(_RECORD)
    if not isinstance(held, ArrayRecord) or not {_FRAME} <= set(held) <= {_FRAME, _BOARD}:
        return None
    if any(array.stype != _STORED_AS for array in held.values()):
        return None
    return held[_FRAME].data, held[_BOARD].data if _BOARD in held else None
