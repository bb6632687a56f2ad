"""How a process of ours starts: what it imports is not taken for garbage, and what it never uses is not read.

For entry points alone: a library that is imported changes nothing of the process that imports it.
"""

import atexit
import gc
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

_OBJECTS = 20_000
"""That are made before Python looks for garbage among them; by itself it looks after 700, some hundred times while
a command is loaded.
"""
_USUAL = gc.get_threshold()
_ON_DEMAND = frozenset({"numpy.f2py", "numpy.testing"})
"""SciPy takes all names of NumPy, these modules too, and uses them in its own tests alone: a third of its start."""


def start_quickly() -> None:
    """Call this first in a process; may be called again."""
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)  # nor is it looked through once more at the end, when all of it goes
    if not any(isinstance(finder, _OnDemand) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OnDemand())


def lives_on() -> None:
    """Call this where a process has loaded what it serves with. Garbage is looked for as often as usual then,
    so that it is not held for long, and never among what was loaded.
    """
    gc.freeze()
    gc.set_threshold(*_USUAL)


class _OnDemand(MetaPathFinder):
    """Finds a few modules as they are, and has them run when something of theirs is used."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _ON_DEMAND:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found
