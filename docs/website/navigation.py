"""What stands where on the site."""

import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

APART = ("source/",)
"""Pages that links lead to and nobody looks up: files of code."""


class NavigationError(Exception):
    """The navigation and the pages do not fit together."""


def navigation(file: Path, pages: Sequence[str]) -> str:
    """The navigation in the generator's own words, a TOML array.

    Args:
        file: ``navigation.toml``.
        pages: all that are there, relative paths.

    Raises:
        NavigationError: a page is not named exactly once, or a name has no page.
    """
    groups = tomllib.loads(file.read_text(encoding="utf-8"))["groups"]
    named = Counter(path for group in groups for path, _ in _pages_below(group))
    wanted = {page for page in pages if not page.startswith(APART)}
    faults = [f"{page} is not in {file.name}" for page in sorted(wanted - set(named))]
    faults += [f"{file.name} names {page}, which is not there" for page in sorted(set(named) - wanted)]
    faults += [f"{file.name} names {page} {times} times" for page, times in named.items() if times > 1]
    if faults:
        raise NavigationError("; ".join(faults))
    return f"[{', '.join(map(_written, groups))}]"


def _pages_below(group: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    yield from _own_pages(group)
    for inner in group.get("groups", ()):
        yield from _pages_below(inner)


def _own_pages(group: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Path and title of the pages that stand in a group itself; a title of None is the page's own."""
    yield from ((entry, None) if isinstance(entry, str) else entry for entry in group.get("pages", ()))


def _written(group: Mapping[str, Any]) -> str:
    """One group as an inline table of TOML, whose strings are those of JSON."""
    inside = [
        json.dumps(path) if title is None else f"{{{json.dumps(title)} = {json.dumps(path)}}}"
        for path, title in _own_pages(group)
    ]
    inside += [_written(inner) for inner in group.get("groups", ())]
    return f"{{{json.dumps(group['title'])} = [{', '.join(inside)}]}}"
