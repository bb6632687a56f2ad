"""Free-form sections of a configuration, turned into the dataclass that knows their meaning."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import msgspec

from fedboard.common.errors import InputError

Options = TypeVar("Options")


def checked_options(raw: Mapping[str, Any], kind: type[Options], section: str) -> Options:
    """Make a ``kind`` of a section.

    Raises:
        InputError: an unknown key, a wrong type or a value out of range; the message names the section.
    """
    known = sorted(field.name for field in fields(kind))  # type: ignore[arg-type]
    unknown = sorted(set(raw) - set(known))
    if unknown:
        raise InputError(f"{section}: unknown key {unknown[0]!r}; known are {', '.join(known)}")
    try:
        return msgspec.convert(dict(raw), kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{section}: {error}") from error


__all__ = ["checked_options"]
