"""Two servers, the second of which adds no noise."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from fedboard.common.arrays import FloatArray
from fedboard.common.privacy.releases.noise import NoiseSource, NoiseStream
from fedboard.simulations.audit.sessions import Sessions
from fedboard.simulations.audit.subject import Subject


def silent_helper(subject: Subject) -> Subject:
    """The run under two servers, the second of which adds nothing to its total."""
    correct = honest_helper(subject)
    assert correct.sessions is not None
    return replace(correct, sessions=replace(correct.sessions, helper_noise=silence))


def honest_helper(subject: Subject) -> Subject:
    """The run under two servers, as it should be."""
    return replace(subject, sessions=Sessions(choice="two-server", backend=subject.protocol.backend))


def silence(drawn: NoiseSource) -> "Silence":
    """Nothing to draw from."""
    return Silence()


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentStream(NoiseStream):
    """Draws of exactly nothing."""

    key: bytes = field(default=bytes(32), repr=False)

    def normal(self, offset: int, count: int) -> FloatArray:
        """Zeros."""
        return np.zeros(count)


@dataclass(frozen=True, slots=True)
class Silence:
    """A source without any noise."""

    private: ClassVar[bool] = False
    label: ClassVar[str] = "none: broken on purpose"

    def describe(self) -> dict[str, Any]:
        """Public fields for the event."""
        return {"noise": self.label, "private": self.private}

    def stream(self, name: str) -> SilentStream:
        """Always the same one."""
        return SilentStream()
