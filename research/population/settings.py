"""What the curve runs its algorithms with: settings for how much noise there is beside what people give.

The shipped presets end at an epsilon of 20 and know one number of people. Here are some for far less noise, and for
people who rate as those of the curve do. They were tuned on other made-up people (``settings.toml`` says which), so
that nothing was chosen by the ratings that the curve is about.
"""

import math
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

import msgspec

from fedboard.common.algorithms.shared.tuned import Preset

TUNED_ON = 100_000
"""People on whose ratings these settings were tuned."""
_FILE = "settings.toml"


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    epsilon: float
    """Of ``TUNED_ON`` people."""
    settings: dict[str, Any]
    shares: dict[str, float] = {}


def settings_for(algorithm: str, epsilon: float, users: int) -> Preset:
    """The settings nearest to this much noise, on the log scale; empty where the algorithm has none here.

    Args:
        algorithm: any.
        epsilon: > 0.
        users: >= 1.
    """
    wanted = equivalent(epsilon, users)
    entries = _entries().get(algorithm, [])
    if not entries:
        return Preset()
    nearest = min(entries, key=lambda entry: abs(math.log(entry.epsilon / wanted)))
    return Preset(settings=nearest.settings, shares=nearest.shares)


def equivalent(epsilon: float, users: int) -> float:
    """The epsilon at which the people that settings were tuned on have as much noise beside their ratings.

    Noise of a sum goes by 1 / epsilon and what people add to it by their number, so that settings for many people
    at a small epsilon are those for fewer at a larger one.
    """
    return epsilon * users / TUNED_ON


@lru_cache(maxsize=1)
def _entries() -> Mapping[str, list[_Entry]]:
    text = resources.files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, list[_Entry]])
