"""What an audit finds: one line a check."""

from dataclasses import dataclass
from enum import StrEnum

from fedboard.common.errors import FedboardError


class Part(StrEnum):
    """The parts of an audit that can find a violation."""

    FILE = "file"
    """What one user of the file changes before the first release, and what its releases show of her."""
    COURSE = "course"
    """Whether what happens, and when, depends on who is there."""
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


def broken_check(error: FedboardError) -> AuditFinding:
    """A check of the run itself that failed in the course of an audit."""
    check = "the run keeps the bounds that it checks itself"
    return AuditFinding(
        part=Part.SENSITIVITY, check=check, passed=False, detail=f"{error}; the audit ended there"
    )
