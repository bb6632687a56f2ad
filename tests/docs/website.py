"""What builds the site, from beside the package: its modules, imported as ``python docs/build.py`` does."""

import importlib
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NEEDED = ("jupytext", "markdown_it", "mkdocstrings_handlers.python", "zensical")


def module(name: str) -> ModuleType:
    """A module of ``docs/website``."""
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module(f"website.{name}")
    finally:
        sys.path.remove(str(DOCS))


def script(name: str) -> dict[str, Any]:
    """The names of a script in ``docs/``, as it is when it is started."""
    sys.path.insert(0, str(DOCS))
    try:
        return runpy.run_path(str(DOCS / name))
    finally:
        sys.path.remove(str(DOCS))


def require_generator() -> None:
    """Skip where the site cannot be built."""
    for needed in NEEDED:
        pytest.importorskip(needed, reason=f"{needed} is not installed: pip install '.[docs]'")
