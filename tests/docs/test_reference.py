"""What the reference shows is said: every name has a docstring, every argument of a function a line in it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.website import DOCS, module, require_generator

pytestmark = pytest.mark.slow

INHERITED = "exit_code"
"""Told once, of the base of all errors; the table of codes has them all."""


def shown() -> list[str]:
    pages = (DOCS / "api").glob("*.md")
    return [
        name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), flags=re.MULTILINE)
    ]


def below(found: Any) -> Iterator[Any]:
    """A name, and all public names that its entry shows."""
    found = found.final_target if found.is_alias else found
    yield found
    if found.is_class or found.is_module:
        for name, member in found.members.items():
            if not name.startswith("_") and not member.is_alias:
                yield from below(member)


def unsaid(function: Any) -> set[str]:
    """Arguments of a function that its docstring says nothing of; one alone may be told in its first line."""
    asked = [
        argument.name.strip("*") for argument in function.parameters if argument.name not in ("self", "cls")
    ]
    sections = function.docstring.parse("google")
    said = {entry.name for part in sections if part.kind.value == "parameters" for entry in part.value}
    return set(asked) - said if len(asked) > 1 else set()


def test_nothing_in_the_reference_is_left_unsaid(tmp_path: Path) -> None:
    require_generator()
    import griffe

    module("staging").packages(tmp_path / "source")
    house = griffe.GriffeLoader(search_paths=[str(tmp_path / "source")]).load("fedboard")
    entries = [entry for name in shown() for entry in below(house[name.removeprefix("fedboard.")])]

    assert len(entries) > 250
    assert [entry.path for entry in entries if not entry.has_docstring and entry.name != INHERITED] == []
    functions = [entry for entry in entries if entry.is_function]
    assert {entry.path: unsaid(entry) for entry in functions if unsaid(entry)} == {}
