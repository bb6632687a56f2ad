"""Our messages as Flower carries them: opaque bytes in arrays, which Flower cuts into chunks of its own."""

from flwr.app import Array, ArrayRecord, RecordDict

ROUND = "query.round"
"""The message type of a round that is one question."""
STEP = "query.step"
"""The message type of one step of a session."""
HELLO = "query.hello"
"""The message type of a greeting: empty, and so is what comes back."""
_RECORD = "fedboard"
_FRAME, _BOARD = "frame", "board"
_STORED_AS = "fedboard.frame"


def record_of(frame: bytes, board: bytes | None = None) -> RecordDict:
    """A message of ours as Flower carries it.

    Args:
        frame: the message.
        board: what many messages have in common; Flower stores equal bytes once.
    """
    arrays = {_FRAME: _array(frame)} if board is None else {_FRAME: _array(frame), _BOARD: _array(board)}
    return RecordDict({_RECORD: ArrayRecord(arrays)})


def _array(content: bytes) -> Array:
    return Array(dtype="uint8", shape=(len(content),), stype=_STORED_AS, data=content)


def frame_of(record: RecordDict) -> bytes | None:
    """The message in a record that holds nothing else; None where there is none."""
    found = frames_of(record)
    return None if found is None or found[1] is not None else found[0]


def frames_of(record: RecordDict) -> tuple[bytes, bytes | None] | None:
    """The message in a record and the board beside it, if one is; None where there is no message."""
    arrays = record.get(_RECORD)
    if not isinstance(arrays, ArrayRecord) or not {_FRAME} <= set(arrays) <= {_FRAME, _BOARD}:
        return None
    if any(array.stype != _STORED_AS for array in arrays.values()):
        return None
    return arrays[_FRAME].data, arrays[_BOARD].data if _BOARD in arrays else None
