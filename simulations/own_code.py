"""Code of a researcher's own, named on the command line: the object in a file or a module, once in each process."""

import importlib
import importlib.util
import sys
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from fedboard.common.errors import InputError


def is_own(choice: str) -> bool:
    """Whether this names code of one's own, and nothing that is registered."""
    return ":" in choice


def own_object(choice: str, kind: str) -> Any:
    """The object that a choice names; the code around it runs.

    Args:
        choice: ``package.module:NAME`` or ``path/to/file.py:NAME``.
        kind: what is looked for, for messages.

    Returns:
        What has that name there; None where nothing has.

    Raises:
        InputError: file or module cannot be loaded.
    """
    place, _, name = choice.rpartition(":")
    module = _from_file(Path(place), kind) if place.endswith(".py") else _from_package(place, kind)
    return getattr(module, name, None)


def _from_package(place: str, kind: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ImportError as error:
        raise InputError(f"{kind} module {place!r} cannot be imported: {error}") from error


def _from_file(path: Path, kind: str) -> ModuleType:
    """A file as a module, once in a process: classes that are loaded twice are not the same."""
    name = f"fedboard_own_{sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"{kind} file {path}: there is no such Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InputError(f"{kind} file {path} cannot be loaded: {type(error).__name__}: {error}") from error
    return module
