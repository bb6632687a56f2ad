"""How something public looks to people: numbers of five digits; a verdict and a plain table. All is escaped."""

import math
import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal
from html import escape

_GOOD, _BAD = "#1a7f37", "#b42318"
_DIGITS = 5
_UPWARD = Context(prec=_DIGITS, rounding=ROUND_CEILING)
_SMALL, _LARGE = -4, 15
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+)(?![\w.]*\d)")


def shown_number(value: float) -> str:
    """Five significant digits, rounded upward: what is shown never promises more than what is claimed.

    For people alone: what is hashed, stored or recomputed keeps every digit.

    Args:
        value: an epsilon, a mu, a delta: something of which less is better.
    """
    if not math.isfinite(value):
        return str(value)
    return _short(Decimal(repr(float(value))))  # the digits that are stated, not those of the binary fraction


def shown_sentence(sentence: str) -> str:
    """The same for each fraction in a sentence that has more than five digits."""
    return _NUMBER.sub(_shorter, sentence)


def _shorter(match: re.Match[str]) -> str:
    number = Decimal(match.group())
    return match.group() if len(number.as_tuple().digits) <= _DIGITS else _short(number)


def _short(value: Decimal) -> str:
    rounded = _UPWARD.create_decimal(value).normalize()
    if not rounded:
        return "0"
    if _SMALL <= rounded.adjusted() < _LARGE:
        return f"{rounded:f}"
    digits, exponent = f"{rounded:e}".lower().split("e")
    return f"{digits}e{int(exponent):+03d}"


def table_html(heading: str, verdict: str, rows: Iterable[tuple[str, str]]) -> str:
    """A small table.

    Args:
        heading: what it is.
        verdict: whether it is private, in a plain sentence: ``private: ...`` where it is, going on after
            a semicolon where that was not checked.
        rows: name and value. Public facts alone.
    """
    colour = _GOOD if verdict.startswith("private") and ";" not in verdict else _BAD
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
        for name, value in rows
    )
    return (
        f"<div><b>{escape(heading)}</b> <span style='color:{colour}'>{escape(verdict)}</span>"
        f"<table>{cells}</table></div>"
    )
