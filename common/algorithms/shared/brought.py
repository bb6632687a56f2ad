"""Records that other packages bring by entry points: looked up by name, loaded when they are asked for."""

import os
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints

from fedboard.common.errors import InputError

Entries = dict[str, tuple[EntryPoint, ...]]
"""Name -> the entry points that have it; more than one where several packages bring it."""


def entries_of(group: str, find: Callable[..., EntryPoints]) -> Entries:
    """The entry points of a group by name.

    Args:
        group: of entry points.
        find: ``importlib.metadata.entry_points``.
    """
    return _entries_by(group, find, tuple((place, _changed(place)) for place in sys.path))


def loaded(entries: tuple[EntryPoint, ...], kind: str = "algorithm") -> object:
    """What the one entry point of a name stands for.

    Args:
        entries: those of the name.
        kind: what is looked for, for messages.

    Raises:
        InputError: two packages bring the name, or it cannot be loaded.
    """
    entry = entries[0]
    if len(entries) > 1:
        values = " and ".join(sorted(each.value for each in entries))
        raise InputError(f"{kind} {entry.name!r} is brought by two packages, as {values}; remove one of them")
    try:
        found: object = entry.load()
    except Exception as error:  # whatever somebody else's package raises while it is imported
        raise InputError(
            f"{kind} {entry.name!r} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    return found


@lru_cache(maxsize=4)
def _entries_by(group: str, find: Callable[..., EntryPoints], places: tuple[tuple[str, int], ...]) -> Entries:
    """Looked for again, which takes 10 ms, where something was installed since in one of the places."""
    found: Entries = {}
    for entry in find(group=group):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def _changed(place: str) -> int:
    try:
        return os.stat(place or ".").st_mtime_ns
    except OSError:
        return 0
