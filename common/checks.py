"""Checking public settings: one clear sentence about what is out of range."""

import math
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeAlias, get_args, get_type_hints

from fedboard.common.errors import InputError, SettingError

MOST_ROUNDS = 10_000
"""Of a run, or steps: each is a release or two, and whoever checks a certificate recomputes them all."""
MOST_WORKERS = 256
"""Processes on one machine."""


def require(holds: bool, name: str, rule: str, value: object) -> None:
    """Refuse a setting.

    Raises:
        InputError: ``holds`` is false.
    """
    if not holds:
        raise InputError(f"{name} must be {rule}, got {value}")


@dataclass(frozen=True, slots=True)
class Range:
    """Which numbers a setting may be; stated with its field, as ``Annotated[float, Range(...)]``."""

    rule: str
    """How a sentence goes on that began with "must be"."""
    holds: Callable[[Any], bool]
    """Whether a number is one of them; NaN must not be."""


def whole(least: int = 1, most: int | None = None) -> Range:
    """Whole numbers from the least to the most."""
    rule = f">= {least}" if most is None else f"from {least} to {most}"

    def holds(number: Any) -> bool:
        countable = isinstance(number, int) and not isinstance(number, bool)
        return countable and least <= number and (most is None or number <= most)

    return Range(f"a whole number {rule}", holds)


def require_whole(name: str, value: object, *, least: int = 1, most: int | None = None) -> None:
    """Refuse what is no whole number in its range.

    Raises:
        InputError: not a whole number, or out of range.
    """
    allowed = whole(least, most)
    require(allowed.holds(value), name, allowed.rule, repr(value))


Positive: TypeAlias = Annotated[float, Range("finite and > 0", lambda x: 0.0 < x < math.inf)]
NotNegative: TypeAlias = Annotated[float, Range("finite and >= 0", lambda x: 0.0 <= x < math.inf)]
Share: TypeAlias = Annotated[float, Range("in (0, 1)", lambda x: 0.0 < x < 1.0)]
Fraction: TypeAlias = Annotated[float, Range("in [0, 1]", lambda x: 0.0 <= x <= 1.0)]
BelowOne: TypeAlias = Annotated[float, Range("in [0, 1)", lambda x: 0.0 <= x < 1.0)]
UpToOne: TypeAlias = Annotated[float, Range("in (0, 1]", lambda x: 0.0 < x <= 1.0)]
Rounds: TypeAlias = Annotated[int, whole(1, MOST_ROUNDS)]


def require_ranges(settings: Any, prefix: str = "") -> None:
    """Refuse settings of which a number is outside the range that its field states.

    Args:
        settings: a dataclass. Public.
        prefix: of the names, for messages.

    Raises:
        InputError: the message names the field.
    """
    kind: Any = type(settings)
    for name, allowed, optional in _ranges_of(kind):
        value = getattr(settings, name)
        holds = optional if value is None else allowed.holds(value)
        require(holds, f"{prefix}{name}", allowed.rule, value)


@cache
def _ranges_of(kind: Any) -> tuple[tuple[str, Range, bool], ...]:
    """The fields that state a range, the ranges, and whether None is allowed, too."""
    return tuple(
        (name, stated, type(None) in get_args(hint))
        for name, hint in get_type_hints(kind, include_extras=True).items()
        for part in (hint, *get_args(hint))
        for stated in getattr(part, "__metadata__", ())
        if isinstance(stated, Range)
    )


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """The nearest known name, as the end of a sentence; empty where none is near.

    Args:
        given: what somebody typed. Public.
        known: the names that there are.
    """
    from difflib import get_close_matches  # for mistakes alone

    names = {name.casefold(): name for name in known}
    ends = {name.rpartition("_")[2]: name for name in reversed(names)}  # rmse of validation_rmse
    wanted = str(given).casefold()
    close = get_close_matches(wanted, names, n=1) or [ends[e] for e in get_close_matches(wanted, ends, n=1)]
    return f"; did you mean {names[close[0]]!r}?" if close else ""


def require_one_of(name: str, value: str, known: Collection[str]) -> None:
    """Refuse a name that nothing has.

    Raises:
        InputError: it is none of those that are known; the message lists them and says which may be meant.
    """
    if value not in known:
        raise InputError(
            f"{name} must be one of {', '.join(known)}, got {value!r}{did_you_mean(value, known)}"
        )


def unknown_key(key: str, known: Collection[str], *, section: str = "") -> str:
    """The sentence about a key that nobody reads.

    Args:
        key: as it was given.
        known: those that there are.
        section: what the key was given to.
    """
    where = f"{section}: " if section else ""
    return f"{where}unknown key {key!r}; known are {', '.join(known)}{did_you_mean(key, known)}"


def sentence_of(error: Exception, kind: type) -> str:
    """What to tell whoever wrote a file: the section's own sentence, which names its key, or the reader's.

    Args:
        error: of reading it.
        kind: what it should have been.
    """
    if isinstance(error.__cause__, SettingError):
        return str(error.__cause__)
    return key_sentence(error, kind)


def key_sentence(error: Exception, kind: type) -> str:
    """What msgspec found wrong in a configuration, by the key that it is about.

    Args:
        error: of ``msgspec.convert`` to ``kind``.
        kind: the struct that was to be read.
    """
    found = _AT.fullmatch(str(error))
    if found is None:
        return str(error)
    what, path = found["what"], found["path"] or ""
    unknown, value, wrong = (rule.fullmatch(what) for rule in (_UNKNOWN, _VALUE, _WRONG))
    if unknown is not None:
        return unknown_key(unknown["key"], _keys_of(_type_at(kind, path)), section=path)
    if wrong is not None:
        wanted, got = (" or ".join(_KINDS.get(k, k) for k in one.split(" | ")) for one in wrong.groups())
        return f"{path or 'it'} must be {wanted}, got {got}"
    if value is not None:
        known = _values_of(_type_at(kind, path))
        return f"{error}; known are {', '.join(known)}{did_you_mean(value['value'], known)}"
    return str(error)


_AT = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>[^`]*)`")
_VALUE = re.compile(r"Invalid enum value '(?P<value>.*)'")
_WRONG = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_KINDS = {"float": "a number", "int": "a whole number", "str": "a text", "bool": "true or false"}
"""What msgspec calls the kinds of values, in words."""


def _type_at(kind: type, path: str) -> Any:
    """What is read at this place of a configuration, such as ``nodes[0].name``, as ``msgspec.inspect`` says it."""
    from msgspec import inspect

    found: Any = inspect.type_info(kind)
    for part in [part for part in re.split(r"[.\[\]]+", path) if part]:
        for inner in _all_of(found):
            named = {field.encode_name: field.type for field in getattr(inner, "fields", ())}
            found = named.get(part) or getattr(inner, "item_type", found)
    return found


def _all_of(found: Any) -> tuple[Any, ...]:
    """The kinds of a union, or the one that it is."""
    return tuple(getattr(found, "types", (found,)))


def _keys_of(found: Any) -> list[str]:
    return [field.encode_name for inner in _all_of(found) for field in getattr(inner, "fields", ())]


def _values_of(found: Any) -> list[str]:
    kinds = _all_of(found)
    return [str(v) for kind in kinds for v in (*getattr(kind, "values", ()), *getattr(kind, "cls", ()))]


_TELLING = {
    "user": ("user", "reviewer", "customer", "member", "person", "account", "uid"),
    "item": (
        "item",
        "movie",
        "film",
        "product",
        "asin",
        "book",
        "isbn",
        "track",
        "song",
        "artist",
        "business",
        "id",
    ),
    "rating": ("rating", "stars", "score", "overall", "value", "preference", "grade", "points"),
    "title": ("title", "name"),
    "timestamp": ("timestamp", "time", "date", "when"),
}
"""Words that columns of tables of ratings are called by, the most telling first."""


def try_columns(found: Sequence[str], wanted: Mapping[str, str]) -> str:
    """What to type so that columns of other names are read, as the end of a sentence; empty where none can be told.

    Args:
        found: names of the columns of a table. They are quoted, so it is for who owns the table.
        wanted: role (``user``, ``item``, ``rating``, ``title``) -> the name that was looked for.
    """
    guess = {role: name for role, name in wanted.items() if name in found}
    left = [name for name in found if name not in guess.values()]
    for role in [role for role in wanted if role not in guess]:
        ranked = sorted(left, key=lambda name: _tells(name, role), reverse=True)
        if ranked and _tells(ranked[0], role) > 0:
            guess[role] = ranked[0]
            left.remove(ranked[0])
    rest = [name for name in left if not _tells(name, "timestamp")]
    for role in [role for role in wanted if role not in guess]:
        if rest:
            guess[role] = rest.pop(0)
    changed = {role: name for role, name in guess.items() if name != role}
    plain = all(name and not set(name) & set("=,") and name.isprintable() for name in changed.values())
    if len(guess) < len(wanted) or not plain or all(_is_number(name) for name in found):
        return ""
    given = ",".join(f"{role}={name}" for role, name in guess.items() if role in changed)
    return f"; try --columns {shlex.quote(given)}"


def _tells(name: str, role: str) -> int:
    """How surely a column of this name has this role; 0 if nothing says so."""
    plain = re.sub(r"[^a-z]", "", name.casefold())
    for place, word in enumerate(reversed(_TELLING[role]), start=1):
        if plain in (word, f"{word}s", f"{word}id", f"{word}ids"):
            return 1000 + place
    found = (place for place, word in enumerate(reversed(_TELLING[role]), start=1) if word in plain)
    return max(found, default=0)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
