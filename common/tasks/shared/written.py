"""How an algorithm's configuration is written: on boards and in files its keys stand side by side, without parts.

Whoever sets a key need not know which part it is of.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, TypeVar

import msgspec

from fedboard.common.errors import InputError
from fedboard.common.tasks.shared.ratings_config import RatingsConfig

Settings = TypeVar("Settings")

_PART = "shared"
_OF_PART = tuple(one.name for one in fields(RatingsConfig))


def has_part(kind: type[Any]) -> bool:
    """Whether a configuration of this dataclass has a ``RatingsConfig``, and each of its keys once.

    Args:
        kind: a dataclass.
    """
    found = {one.name: one.type for one in fields(kind)}
    return found.get(_PART) in (RatingsConfig, RatingsConfig.__name__) and not found.keys() & set(_OF_PART)


def keys_of(kind: type[Any]) -> tuple[str, ...]:
    """The keys of a configuration as it is written.

    Args:
        kind: a dataclass, with or without the part.
    """
    own = tuple(one.name for one in fields(kind) if one.name != _PART)
    return (*_OF_PART, *own) if has_part(kind) else own


def as_written(settings: Any) -> dict[str, Any]:
    """A configuration, JSON-able."""
    plain: dict[str, Any] = msgspec.to_builtins(settings)
    return {**plain.pop(_PART), **plain}


def from_written(written: Mapping[str, Any], kind: type[Settings]) -> Settings:
    """The configuration that stands in a file or on a board.

    Args:
        written: key to value; public.
        kind: a dataclass, with or without the part; what is not written has its default.

    Raises:
        InputError: a value is outside its range, or it is not written so.
        msgspec.ValidationError: a value is of another type.
    """
    if not has_part(kind):
        return msgspec.convert(dict(written), kind)
    if _PART in written:
        raise InputError(f"a configuration is written without parts, got the part {_PART!r}")
    own = {key: value for key, value in written.items() if key not in _OF_PART}
    part = {key: value for key, value in written.items() if key in _OF_PART}
    try:
        return msgspec.convert({**own, _PART: {**_defaults_of(kind), **part}}, kind)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(str(error).replace(f"$.{_PART}.", "$.")) from error


def _defaults_of(kind: type[Any]) -> dict[str, Any]:
    """What the part holds where a task has other defaults than ``RatingsConfig``."""
    (made,) = (one.default_factory for one in fields(kind) if one.name == _PART)
    return {} if made is MISSING or made is RatingsConfig else dict(msgspec.to_builtins(made()))


def with_noise(settings: Settings, multipliers: Mapping[str, float]) -> Settings:
    """The same configuration with the noise that calibration found, by release name."""
    shared: RatingsConfig = settings.shared  # type: ignore[attr-defined]
    return replace(settings, shared=replace(shared, noise_multipliers=multipliers))  # type: ignore[type-var]
