"""Text of others on a label: one line, no sign that turns or hides others, cut to length, wrapped to a width."""

import re
import unicodedata
from collections.abc import Iterator

_SPACE = re.compile(r"\s+")
_JOINERS = "\u200c\u200d"
"""Signs without width that scripts of India and Iran need."""
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn")
_MOST_MARKS = 4
"""Combining marks in a row; real scripts need no more, and a pile of them leaves its line."""


def as_line(text: str) -> str:
    """The text as one line, without control characters, without those that change the direction of others."""
    kept, marks = [], 0
    for sign in _SPACE.sub(" ", text).strip():
        marks = marks + 1 if unicodedata.combining(sign) else 0
        if (unicodedata.category(sign) in _HIDDEN and sign not in _JOINERS) or marks > _MOST_MARKS:
            continue
        kept.append(sign)
    return "".join(kept)


def cut(text: str, most: int) -> str:
    """The line, at most so many signs long, with an ellipsis where something was left out."""
    line = as_line(text)
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def wrapped(text: str, width: float) -> Iterator[str]:
    """Lines that are no wider than ``width``, in units of the font's size; words that are wider are taken apart.

    Fonts differ, so widths are those of a wide one (DejaVu Sans), and what no font is known for counts more.
    """
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if width_of(longer) <= width:
            line = longer
            continue
        if line:
            yield line
        while width_of(word) > width:
            head = next(n for n in range(len(word), 0, -1) if n == 1 or width_of(word[:n]) <= width)
            yield word[:head]
            word = word[head:]
        line = word
    if line:
        yield line


def width_of(text: str) -> float:
    """How wide a line is at most, in units of the font's size."""
    return sum(map(_width, text))


def _width(sign: str) -> float:
    if unicodedata.combining(sign) or sign in _JOINERS:
        return 0.0
    if sign in " .,:;!'|ijlI()[]-ftr":
        return 0.41
    if sign in "mwMWQ@%—&+<>=~#…":
        return 1.0
    if sign.isascii():
        return 0.78 if sign.isupper() else 0.64
    if "\ufb50" <= sign <= "\ufdff":  # Arabic ligatures: a whole phrase in one sign
        return 14.0
    return 1.4 if unicodedata.east_asian_width(sign) in "WF" else 1.15
