"""Edits of a certificate, one leaf each: taken out, of another type, another value, an unknown member."""

import copy
from collections.abc import Iterator
from typing import Any

from fedboard.common.privacy.events import digest
from tests.client.page.certificates import Path

_TYPES = (None, True, 0, 1.5, "7", [], {})
"""One of each type of JSON."""


def edits(plain: dict[str, Any]) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """Each edit: its place, how, and the certificate. The digest fits; where no value changes, it also stays."""
    for path, value in _places(plain):
        if path == ("digest",):
            continue
        for how, change in _changes(value):
            made = _with(plain, path, change)
            if made == plain and repr(made) == repr(plain):
                continue
            yield path, how, made | {"digest": digest({k: v for k, v in made.items() if k != "digest"})}
            if how in ("taken out", "an unknown member", "a whole number", "a float"):
                yield path, f"{how}, the digest left", made


def _changes(value: Any) -> Iterator[tuple[str, Any]]:
    """How a value may be changed: (name, function of its parent and key)."""
    yield "taken out", lambda parent, key: parent.pop(key)
    if isinstance(value, dict):
        yield "an unknown member", lambda parent, key: parent[key].update(unknown=1)
    others = [(f"type {type(other).__name__}", other) for other in _TYPES if type(other) is not type(value)]
    if isinstance(value, bool):
        others += [("the other", not value)]
    elif isinstance(value, int | float):
        others += [("minus", -value), ("none", value * 0), ("huge", value * 10**30), ("one more", value + 1)]
        others += [("a little more", value * 1.001), ("a little less", value / 1.001)]
        others += [("a float", float(value))] if isinstance(value, int) else []
        others += [("a whole number", int(value))] if float(value).is_integer() else []
    elif isinstance(value, str):
        others += [("longer", f"{value}x"), ("empty", ""), ("blank", " ")]
    elif isinstance(value, list):
        others += [("longer", [*value, *(value[-1:] or ["more"])]), ("shorter", value[:-1])]
    for how, other in others:
        yield how, lambda parent, key, other=other: parent.__setitem__(key, copy.deepcopy(other))


def _with(plain: dict[str, Any], path: Path, change: Any) -> dict[str, Any]:
    made = copy.deepcopy(plain)
    parent: Any = made
    for step in path[:-1]:
        parent = parent[step]
    if path:
        change(parent, path[-1])
    else:
        made["unknown"] = 1
    return made


def _places(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value, leaf or not; of lists the first element, which stands for the others."""
    yield path, value
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    )
    for key, one in inner:
        yield from _places(one, (*path, key))
