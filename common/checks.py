"""Checking the public settings of a task: one clear sentence about what is out of range."""

from fedboard.common.errors import InputError


def require(holds: bool, name: str, rule: str, value: object) -> None:
    """Refuse a setting.

    Raises:
        InputError: ``holds`` is false.
    """
    if not holds:
        raise InputError(f"{name} must be {rule}, got {value}")


__all__ = ["require"]
