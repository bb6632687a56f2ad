"""The names of the service's methods, as gRPC writes them, and the limits that both sides keep."""

SERVICE = "fedboard.v1.Boards"
FETCH = "Fetch"
WATCH = "Watch"
PENDING = "Pending"
COSIGN = "Cosign"

CHUNK_BYTES = 1 << 20
"""Bytes of a file in one message."""
MAX_MESSAGE_BYTES = CHUNK_BYTES + (1 << 18)
"""Most bytes of one message to a reader, which is a chunk or a manifest."""
MAX_PENDING_BYTES = 1 << 26
"""Most bytes of a manifest with its certificate, which only witnesses read: the releases of some 60 000 rounds."""
MAX_REQUEST_BYTES = 4096


def method(name: str) -> str:
    """The path of a method."""
    return f"/{SERVICE}/{name}"


def allowed_seconds(n_bytes: int, seconds: float) -> float:
    """For so many bytes of a file in all, with so many seconds for each ``CHUNK_BYTES``."""
    return seconds * (1 + n_bytes / CHUNK_BYTES)
