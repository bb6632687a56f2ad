"""``--data synthetic:KEY=NUMBER,...``: how many made-up people, of how many items, and which."""

import math
from dataclasses import dataclass, fields

from fedboard.common.checks import unknown_key
from fedboard.common.errors import InputError

PREFIX = "synthetic:"
_MOST = {"users": 10**12, "items": 10**7, "seed": 2**63 - 1}
_LEAST = {"users": 1, "items": 20, "seed": 0}
_USUAL_MINIMUM = 0.12
"""Of the mean: that of MovieLens 1M, whose people rate 20 films at least and 166 in the mean."""
MOST_OF_CATALOGUE = 0.5
"""Nobody rates more of it."""


def is_people(source: str) -> bool:
    """Whether a data source names made-up people who are generated block by block."""
    return source.startswith(PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleConfig:
    """Which people. Public."""

    users: int = 20_000
    """How many; the first n of more people are those of n."""
    items: int = 3449
    """Size of the catalogue; by default that of MovieLens 1M as it is fitted."""
    mean: float = 165.5
    """Ratings of a person in the mean; what is cut off at half the catalogue is lost."""
    minimum: int | None = None
    """Nobody rates fewer; None for 0.12 of the mean, at least 1, as in MovieLens 1M."""
    seed: int = 0
    """Other seeds are other people and other items."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InputError: a number is out of range.
        """
        for name, least in _LEAST.items():
            value, most = getattr(self, name), _MOST[name]
            if not least <= value <= most:
                raise InputError(
                    f"made-up people: {name} must be a whole number from {least} to {most:g}, got {value}"
                )
        if not 1 <= self.mean <= self.items / 4:
            raise InputError(
                f"made-up people: mean must be from 1 to a quarter of the items ({self.items / 4:g}), "
                f"got {self.mean:g}"
            )
        if self.minimum is not None and not 1 <= self.minimum <= self.mean:
            raise InputError(
                f"made-up people: minimum must be a whole number from 1 to the mean ({self.mean:g}), "
                f"got {self.minimum}"
            )

    @property
    def fewest(self) -> int:
        """What everybody rates at least."""
        if self.minimum is not None:
            return self.minimum
        return max(1, math.floor(_USUAL_MINIMUM * self.mean + 0.5))

    @property
    def most(self) -> int:
        """What nobody exceeds."""
        return max(self.fewest, int(MOST_OF_CATALOGUE * self.items))

    @property
    def text(self) -> str:
        """The data source that means these people."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        told = (f"{name}={_in_full(value)}" for name, value in given.items() if value is not None)
        return PREFIX + ",".join(told)


def _in_full(value: float) -> str:
    """All of a number: a mean that was rounded would be that of other people."""
    short = f"{value:g}"
    return short if not isinstance(value, int) and float(short) == value else repr(value)


def people_config(source: str) -> PeopleConfig:
    """What ``synthetic:KEY=NUMBER,...`` means.

    Raises:
        InputError: no such key, no number, or one out of range; one sentence.
    """
    known = [field.name for field in fields(PeopleConfig)]
    given: dict[str, float] = {}
    for text in source.removeprefix(PREFIX).split(","):
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (key and equals):
            raise InputError(
                f"--data {source}: {text!r} must be KEY=NUMBER, such as {PREFIX}users=1e6,items=20000,mean=20"
            )
        if key not in known:
            raise InputError(unknown_key(key, known, section=f"--data {source}"))
        if key in given:
            raise InputError(f"--data {source}: {key} is given twice; keep one of them")
        given[key] = _number(value, key, source)
    return PeopleConfig(**given)  # type: ignore[arg-type]  # whole where they have to be, see _number


def _number(text: str, key: str, source: str) -> float:
    """A finite number, as an int unless it is the mean: 1e8 is a whole number too."""
    try:
        number = float(text)
        whole = int(text) if text.lstrip("+-").isdecimal() else None
    except ValueError:
        number, whole = math.nan, None
    if not math.isfinite(number) or (key != "mean" and number != math.floor(number)):
        kind = "a number" if key == "mean" else "a whole number"
        raise InputError(f"--data {source}: {key} must be {kind}, got {text!r}")
    if key == "mean":
        return number
    return int(number) if whole is None else whole
