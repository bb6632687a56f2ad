"""Charts as SVG that needs nothing else: lines over numbers or names, with ticks that people can read."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

from fedboard.common.reports.wording import Table, capital, fixed, number

Points: TypeAlias = Sequence[tuple[float, float]]
"""Places along the axis, ascending, each with its height."""
SERIES = 6
"""As many lines can be told apart, by colour and by dashes."""
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 440, 230, 58, 26, 12, 46
_MOST_TICKS, _MOST_MARKS = 6, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line and its name."""

    name: str
    points: Points
    stairs: bool = False
    """Whether each height holds until the next place."""
    level: bool = False
    """Whether it is something to hold the others against: one height, along the whole axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What an axis is of."""

    label: str
    text: Callable[[float], str] | None = None
    """Of a tick or a cell; by default as many decimals as the ticks need."""
    base: float | None = None
    """Of logarithms, where the axis is logarithmic."""
    zero: bool = False
    """Whether it begins at 0."""
    names: Sequence[str] = ()
    """In place of numbers: of the places 0, 1, ... Two lines each, at most."""
    whole: bool = False
    """Whether there is nothing between two whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What a page needs to show a chart, explain it and list its numbers."""

    slug: str
    title: str
    reading: str
    """One sentence: what the chart shows in this run."""
    held_out: bool
    """Whether it shows something computed on private data outside the guarantee: then it is labelled so."""
    svg: str
    key: tuple[tuple[str, str], ...]
    """Class and name of each line."""
    table: Table
    """The numbers behind it."""


def chart(
    lines: Sequence[Line], *, slug: str, title: str, reading: str, held_out: bool, x: Scale, y: Scale
) -> Chart:
    """Draw lines; those that are too many are in the table alone.

    Args:
        lines: at least one that is no level, with at least one point.
        slug: short name, unique on the page.
        title: above it.
        reading: below the title, and for those who cannot see the chart.
        held_out: see ``Chart``.
        x: the axis along which places lie.
        y: the axis of heights.
    """
    drawn = lines[:SERIES]
    places = [a for line in drawn if not line.level for a, _ in line.points]
    across = _Axis(x, places, _LEFT, _WIDTH - _RIGHT)
    upward = _Axis(y, [b for line in drawn for _, b in line.points], _HEIGHT - _BOTTOM, _TOP)
    classes = [f"s{place}" if not line.level else "level" for place, line in enumerate(drawn)]
    parts = [*_x_axis(across), *_y_axis(upward)]
    for line, name in zip(drawn, classes, strict=True):
        parts += _drawn(line, name, across, upward)
    told = escape(f"{title}. {reading}")
    return Chart(
        slug=slug,
        title=title,
        reading=reading,
        held_out=held_out,
        svg=f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{told}">'
        f"{''.join(parts)}</svg>",
        key=tuple((name, line.name) for line, name in zip(drawn, classes, strict=True)),
        table=_table(lines, x, y),
    )


def ticks(low: float, high: float, *, most: int = _MOST_TICKS, whole: bool = False) -> list[float]:
    """Round numbers within the range, as many as fit: multiples of 1, 2 or 5 times a power of ten."""
    if high <= low:
        return [low]
    least = (high - low) / most
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))
    step = max(step, 1.0) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


class _Axis:
    """Where a value lies between two ends of the drawing."""

    def __init__(self, scale: Scale, values: Sequence[float], begin: float, end: float) -> None:
        self.scale, self._begin, self._end = scale, begin, end
        low, high = (0.0, len(scale.names) - 1.0) if scale.names else (min(values), max(values))
        self._low, self._high = self._of(low), self._of(high)
        if scale.zero and scale.base is None:
            self._low = min(self._low, 0.0)
        if self._low == self._high:
            self._low, self._high = self._low - 0.5, self._high + 0.5
        elif end < begin:  # of heights: a little air above, and below where it does not begin at 0
            air = (self._high - self._low) / 16
            self._low, self._high = self._low - (0.0 if scale.zero else air), self._high + air

    def at(self, value: float) -> float:
        share = (self._of(value) - self._low) / (self._high - self._low)
        return round(self._begin + share * (self._end - self._begin), 1)

    def marks(self) -> list[tuple[float, str]]:
        """Where ticks are, and their texts."""
        scale = self.scale
        if scale.names:
            return [(self.at(place), name) for place, name in enumerate(scale.names)]
        found = ticks(self._low, self._high, whole=scale.whole or scale.base is not None)
        step = found[1] - found[0] if len(found) > 1 else 1.0
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        values = found if scale.base is None else [scale.base**power for power in found]
        plain = scale.text or (number if scale.base is not None else lambda value: f"{value:.{decimals}f}")
        return [(self.at(value), plain(value)) for value in values]

    def _of(self, value: float) -> float:
        return value if self.scale.base is None else math.log(value, self.scale.base)


def _x_axis(axis: _Axis) -> list[str]:
    low, marks = _HEIGHT - _BOTTOM, axis.marks()
    parts = [f'<path class="axis" d="M{_LEFT} {low}H{_WIDTH - _RIGHT}"/>']
    for place, text in marks:
        parts.append(f'<path class="axis" d="M{place} {low}v4"/>')
        for row, line in enumerate(text.split("\n")[:2]):
            parts.append(_text(place, low + 16 + 12 * row, "middle", line))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 5, "middle", axis.scale.label))
    return parts


def _y_axis(axis: _Axis) -> list[str]:
    parts = []
    for place, text in axis.marks():
        parts.append(f'<path class="grid" d="M{_LEFT} {place}H{_WIDTH - _RIGHT}"/>')
        parts.append(_text(_LEFT - 6, place + 4, "end", text))
    return parts


def _drawn(line: Line, name: str, across: _Axis, upward: _Axis) -> list[str]:
    if line.level:
        return [f'<path class="{name}" d="M{_LEFT} {upward.at(line.points[0][1])}H{_WIDTH - _RIGHT}"/>']
    spots = [(across.at(a), upward.at(b)) for a, b in line.points]
    way = f"M{spots[0][0]} {spots[0][1]}" if spots else ""
    way += "".join(f"H{a}V{b}" if line.stairs else f"L{a} {b}" for a, b in spots[1:])
    parts = [f'<path class="{name}" d="{way}"/>']
    if not line.stairs and len(spots) <= _MOST_MARKS:
        parts += [f'<circle class="{name}" cx="{a}" cy="{b}" r="3"/>' for a, b in spots]
    return parts


def _text(x: float, y: float, anchor: str, words: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def _table(lines: Sequence[Line], x: Scale, y: Scale) -> Table:
    columns = [dict(line.points) for line in lines if not line.level]
    heads = [line.name for line in lines if not line.level]
    places = sorted({place for column in columns for place in column})
    names = [name.replace("\n", ": ") for name in x.names]
    told = y.text or fixed
    rows = [
        (
            names[int(place)] if names else (x.text or number)(place),
            *("–" if place not in column else told(column[place]) for column in columns),
        )
        for place in places
    ]
    return Table(headers=(capital(x.label.partition(" (")[0]), *heads), rows=tuple(rows))
