"""What the configurations of all algorithms on ratings have in common.

On boards and in files the keys of a configuration stand side by side, without parts: whoever sets a key need not
know which part it is of.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

import msgspec

from fedboard.common.checks import Positive, key_sentence, require, require_ranges, unknown_key, whole
from fedboard.common.errors import InputError
from fedboard.common.privacy.adjacency import Adjacency

LARGEST_RANK = 512
"""Beyond it, matrices per item would not fit in memory; found out before anything is released."""
Rank: TypeAlias = Annotated[int, whole(1, LARGEST_RANK)]
SUM_SHARE_OF_MEAN = 0.8
"""Of the private mean's share: the sum's sensitivity is half_range times larger than that of the number."""


class Feedback(StrEnum):
    """What a rating says."""

    EXPLICIT = "explicit"
    """A rating on a public range; unrated items say nothing."""
    IMPLICIT = "implicit"
    """Presence alone; unrated items count as weak zeros (``unobserved_weight``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingsConfig:
    """The field ``shared`` of every algorithm's configuration. Every field is public by definition.

    In files and on boards its keys stand beside the algorithm's own, see ``from_written``.
    """

    feedback: Feedback = Feedback.EXPLICIT
    rating_low: float = 1.0
    """Lower end of the public rating range."""
    rating_high: float = 5.0
    """Upper end of the public rating range."""
    count_cap: Annotated[int, whole()] = 100
    """A user's counts are scaled so that she weighs no more than one with this many ratings."""
    mean_cap: Positive = 50.0
    """A user's part in the private mean weighs no more than this many ratings (smooth bounding)."""
    public_seed: int = 0
    """Seed of the random first factors; public."""
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    noise_multipliers: Mapping[str, float] = field(default_factory=dict)
    """By release name; filled in by calibration."""

    def __post_init__(self) -> None:
        """Check every public range.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        require(self.rating_low < self.rating_high, "rating_high", "> rating_low", self.rating_high)
        require_ranges(self)

    @property
    def centre(self) -> float:
        """Middle of the public rating range."""
        return (self.rating_low + self.rating_high) / 2

    @property
    def half_range(self) -> float:
        """Half the width of the public rating range."""
        return (self.rating_high - self.rating_low) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingSettings:
    """What a device must know to take part, of any algorithm on ratings. Every field is public by definition."""

    shared: RatingsConfig = field(default_factory=RatingsConfig)
    """What every algorithm on ratings has."""

    def __post_init__(self) -> None:
        """Check the range of every number; a server need not be honest.

        Raises:
            InputError: a value is outside its range; the message names it.
        """
        require_ranges(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseShares:
    """How a run's mu^2 (of the Gaussian guarantee) is shared among its releases. Public."""

    BEFORE: ClassVar[tuple[str, ...]] = ()
    """Shares of the releases that all rounds together leave something for."""

    def __post_init__(self) -> None:
        """Check the range of every share, and that something is left for the rounds.

        Raises:
            InputError: a share is outside (0, 1), or nothing is left.
        """
        require_ranges(self, "shares.")
        before = sum(getattr(self, name) for name in self.BEFORE)
        require(before < 1.0, " + ".join(f"shares.{name}" for name in self.BEFORE), "< 1", before)


def mean_shares(mean: float) -> dict[str, float]:
    """The share of the private mean, by release: the sum is noisier than the number of ratings, so it gets more."""
    return {"mean/sum": mean * SUM_SHARE_OF_MEAN, "mean/number": mean * (1 - SUM_SHARE_OF_MEAN)}


def grown(left: float, rounds: int, exponent: float) -> list[float]:
    """What is left of mu^2, shared among rounds t = 1, 2, ... in proportion to t^exponent."""
    growth = [float(t) ** exponent for t in range(1, rounds + 1)]
    return [left * weight / sum(growth) for weight in growth]


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
    return {**plain.pop(_PART, {}), **plain}


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


def settings_as(kind: type[Settings], settings: Any, **other: Any) -> Settings:
    """Settings of another algorithm that this one builds on.

    Args:
        kind: its dataclass.
        settings: whose values it takes, of every field that both have.
        other: what differs.
    """
    both = {one.name for one in fields(kind)} & {one.name for one in fields(settings)}  # type: ignore[arg-type]
    return kind(**{name: getattr(settings, name) for name in both} | other)


def with_noise(settings: Settings, multipliers: Mapping[str, float]) -> Settings:
    """The same configuration with the noise that calibration found, by release name."""
    shared: RatingsConfig = settings.shared  # type: ignore[attr-defined]
    return replace(settings, shared=replace(shared, noise_multipliers=multipliers))  # type: ignore[type-var]


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
