"""What tuned defaults are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Settings and budget shares that were tuned together."""

    settings: Mapping[str, Any]
    shares: Mapping[str, float] = field(default_factory=dict)


__all__ = ["Preset"]
