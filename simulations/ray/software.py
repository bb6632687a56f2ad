"""What every worker computes by: the code and the versions of the process that asked it, or nothing at all."""

import platform
import shutil
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Final

from fedboard.common.errors import InputError

_DECISIVE: Final = ("ray", "numpy", "scipy", "numba", "llvmlite")
"""Distributions whose version may show in the last bit of a sum."""
_SAME: set[frozenset[tuple[str, str]]] = set()
"""What this process was found to have."""
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


def _folders() -> Iterator[tuple[Path, str]]:
    """Each folder of the installation, and its place in the package."""
    root = _folder_of("fedboard")
    yield root, "."
    for room in _ROOMS:
        if not (root / room).is_dir():
            yield _folder_of(f"fedboard.{room}"), room


def _folder_of(package: str) -> Path:
    return Path(str(import_module(package).__file__)).parent


def software_here() -> dict[str, str]:
    """Versions of Python and of what decides about bits; empty where something is missing."""
    found = {"Python": platform.python_version()}
    for name in _DECISIVE:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ""
    return found


def call_if_same(expected: dict[str, str], function: Callable[..., Any], *arguments: Any) -> Any:
    """In a worker, which may be of a node that joined after the others were looked at.

    Args:
        expected: ``software_here()`` of the process that asks.
        function: what it wants called.
        arguments: for it.

    Raises:
        InputError: other software is installed here.
    """
    key = frozenset(expected.items())
    if key not in _SAME:
        from ray.util import get_node_ip_address

        node = str(get_node_ip_address())  # type: ignore[no-untyped-call]
        require_same_software(node, expected, software_here())
        _SAME.add(key)
    return function(*arguments)


def require_same_software(node: str, expected: dict[str, str], there: dict[str, str]) -> None:
    """See that a node has what is here.

    Raises:
        InputError: it has not; says what differs.
    """
    for name, version in expected.items():
        if (found := there[name]) != version:
            has = f"{name} {found}, and this process {version}" if found else f"no {name}"
            raise InputError(
                f"node {node} has {has}; boards would differ in their last bits, or not come about at all. Give "
                "every node the same"
            )
