"""Free-form sections of a configuration, turned into the dataclass that knows their meaning."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from fedboard.common.checks import key_sentence, unknown_key
from fedboard.common.errors import InputError
from fedboard.common.tasks.shared.written import from_written, keys_of

Options = TypeVar("Options")


def checked_options(
    raw: Mapping[str, Any],
    kind: type[Options],
    section: str,
    *,
    defaults: Mapping[str, Any] | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> Options:
    """Make a ``kind`` of a section.

    Args:
        raw: the section.
        kind: a dataclass, with or without a ``RatingsConfig``.
        section: its name, for messages.
        defaults: laid under the section.
        fixed: fields that other parts of the configuration decide; the section must not name them.

    Raises:
        InputError: an unknown key, a wrong type or a value out of range; the message names the section.
    """
    decided = fixed or {}
    known = sorted(key for key in keys_of(kind) if key not in decided)
    unknown = sorted(set(raw) - set(known))
    if "rounds" in unknown:
        steps = ", and take --set settings.steps=N" if "steps" in known else ""
        raise InputError(f"{section}: this algorithm takes no 'rounds': leave --rounds out{steps}")
    if unknown:
        raise InputError(unknown_key(unknown[0], known, section=section))
    try:
        return from_written({**(defaults or {}), **raw, **decided}, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{section}: {key_sentence(error, kind)}") from error
