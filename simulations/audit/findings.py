"""What an audit finds: one line a check."""

from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """The parts of an audit that can find a violation."""

    NOISE = "noise"
    """The noise that is drawn against the noise that is booked."""
    SENSITIVITY = "sensitivity"
    """What one client can change against the bound that is booked."""
    CANARIES = "canaries"
    """What an adversary learns about planted users against the epsilon that is claimed."""
    BOARD = "board"
    """What an adversary learns from the final board alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """One check and how it ended."""

    part: Part
    check: str
    passed: bool
    detail: str


__all__ = ["AuditFinding", "Part"]
