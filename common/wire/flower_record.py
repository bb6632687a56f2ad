"""Our messages as Flower carries them: opaque bytes in one array, which Flower cuts into chunks of its own."""

from flwr.app import Array, ArrayRecord, RecordDict

ROUND = "query.round"
"""The message type of a round."""
_RECORD = "fedboard"
_ARRAY = "frame"
_STORED_AS = "fedboard.frame"


def record_of(frame: bytes) -> RecordDict:
    """A message of ours as Flower carries it: opaque bytes, which Flower cuts into chunks."""
    array = Array(dtype="uint8", shape=(len(frame),), stype=_STORED_AS, data=frame)
    return RecordDict({_RECORD: ArrayRecord({_ARRAY: array})})


def frame_of(record: RecordDict) -> bytes | None:
    """Our message in a record; None where there is none."""
    arrays = record.get(_RECORD)
    if not isinstance(arrays, ArrayRecord) or set(arrays) != {_ARRAY}:
        return None
    array = arrays[_ARRAY]
    return array.data if array.stype == _STORED_AS else None


__all__ = ["ROUND", "frame_of", "record_of"]
