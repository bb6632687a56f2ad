"""Checking public settings: one clear sentence about what is out of range."""

from fedboard.common.errors import InputError

MOST_ROUNDS = 10_000
"""Of a run, or steps: each is a release or two, and whoever checks a certificate recomputes them all."""
MOST_WORKERS = 256
"""Processes on one machine."""


def require(holds: bool, name: str, rule: str, value: object) -> None:
    """Refuse a setting.

    Raises:
        InputError: ``holds`` is false.
    """
    if not holds:
        raise InputError(f"{name} must be {rule}, got {value}")


def require_whole(name: str, value: object, *, least: int = 1, most: int | None = None) -> None:
    """Refuse what is no whole number in its range.

    Raises:
        InputError: not a whole number, or out of range.
    """
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    if number is None or number < least or (most is not None and number > most):
        rule = f">= {least}" if most is None else f"from {least} to {most}"
        raise InputError(f"{name} must be a whole number {rule}, got {value!r}")
