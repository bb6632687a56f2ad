"""The code of fedboard itself: what it is here, and a copy that a cluster is sent."""

import hashlib
import importlib
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

_ROOMS: Final = ("common", "client", "server", "simulations", "cli")
"""Packages beside ``fedboard`` itself; in an editable installation each lies in a folder of its own."""
_LEFT = shutil.ignore_patterns("__pycache__", "*.pyc", "*.so")


def copy_code(folder: Path) -> Path:
    """Copy the package as it is installed here, without what is compiled.

    Args:
        folder: exists.

    Returns:
        ``folder/fedboard``, which can be imported where ``folder`` is on the path.
    """
    target = folder / "fedboard"
    for place, name in _folders():
        shutil.copytree(place, target / name, ignore=_LEFT, dirs_exist_ok=True)
    return target


@cache
def code_digest() -> str:
    """SHA-256 over every Python file of this installation, hex: two that agree compute the same."""
    found = hashlib.sha256()
    files = {
        str(name / path.relative_to(place)): path for place, name in _folders() for path in _python(place)
    }
    for name, path in sorted(files.items()):
        content = path.read_bytes()
        found.update(f"{name}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


def _folders() -> Iterator[tuple[Path, Path]]:
    """Each folder of the installation, and its place in the package."""
    root = _folder_of("fedboard")
    yield root, Path()
    for room in _ROOMS:
        if not (root / room).is_dir():
            yield _folder_of(f"fedboard.{room}"), Path(room)


def _folder_of(package: str) -> Path:
    return Path(str(importlib.import_module(package).__file__)).parent


def _python(place: Path) -> Iterator[Path]:
    return (path for path in place.rglob("*.py") if "__pycache__" not in path.parts)
