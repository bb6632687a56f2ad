"""What a client remembers between the steps of a session: in memory only, since it holds the session's secrets."""

import hashlib
from dataclasses import dataclass
from typing import ClassVar, Protocol

import msgspec
import numpy as np

from fedboard.common.rounds.step import StepMessage
from fedboard.common.wire.frame import pack_frame, unpack_frame
from fedboard.common.wire.refusals import RefusedError


class Vault(Protocol):
    """Room for one session's state, in the memory of a process. Whoever restarts has lost it, and drops out."""

    def load(self) -> bytes | None:
        """What was saved last; None for nothing."""
        ...

    def save(self, content: bytes) -> None:
        """Put it in the place of what was there."""
        ...


class MemoryVault:
    """The memory of this process."""

    def __init__(self) -> None:
        """Nothing is kept."""
        self._content: bytes | None = None

    def load(self) -> bytes | None:
        """What was saved last; None for nothing."""
        return self._content

    def save(self, content: bytes) -> None:
        """Put it in the place of what was there."""
        self._content = content


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    about: str
    number: int
    asked: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Remembered:
    """A session after one of its steps. Private."""

    KIND: ClassVar[str] = "session"
    MAX_BYTES: ClassVar[int] = 1 << 31

    about: str
    """Which session: a hash of ``StepMessage.about``."""
    number: int
    """Of the last step that was answered."""
    asked: str
    """A hash of that step as it came."""
    reply: bytes
    """What was replied: the very same bytes answer the very same step again."""
    state: bytes
    """Of the protocol's session."""

    def to_bytes(self) -> bytes:
        """For a vault."""
        arrays = {name: np.frombuffer(getattr(self, name), dtype=np.uint8) for name in ("reply", "state")}
        return pack_frame(
            self.KIND, {"about": self.about, "number": self.number, "asked": self.asked}, arrays
        )

    @classmethod
    def of(cls, vault: Vault, step: StepMessage) -> "Remembered | None":
        """What is remembered of a step's session; None where it is not, or no longer, known."""
        content = vault.load()
        if content is None:
            return None
        try:
            frame = unpack_frame(content, kinds=(cls.KIND,), limit=cls.MAX_BYTES)
            fields = frame.read(_Fields)
        except RefusedError:  # of another version of this package
            return None
        if fields.about != digest(step.about):
            return None
        return cls(
            about=fields.about,
            number=fields.number,
            asked=fields.asked,
            reply=frame.arrays["reply"].tobytes(),
            state=frame.arrays["state"].tobytes(),
        )


def digest(content: bytes) -> str:
    """SHA-256, as text."""
    return hashlib.sha256(content).hexdigest()
