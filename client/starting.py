"""How a process of ours starts: what it imports is not taken for garbage, and what it never uses is not read.

For entry points alone: a library that is imported changes nothing of the process that imports it.
"""

import atexit
import gc
import sys
from collections.abc import Iterable, Sequence
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
OF_SERVERS = frozenset({"asyncio", "grpc.aio"})
"""gRPC takes these too, and a device that calls a server uses neither: 2 MB of it."""


def start_quickly(*, unused: Iterable[str] = ()) -> None:
    """Call this first in a process; may be called again.

    Args:
        unused: further modules that this process hardly uses, and that it has not imported yet.
    """
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)  # nor is it looked through once more at the end, when all of it goes
    finder = next((finder for finder in sys.meta_path if isinstance(finder, _OnDemand)), None)
    if finder is None:
        sys.meta_path.insert(0, finder := _OnDemand())
    finder.modules |= {*unused}


def lives_on() -> None:
    """Call this where a process has loaded what it serves with. Garbage is looked for as often as usual then,
    so that it is not held for long, and never among what was loaded.
    """
    gc.freeze()
    gc.set_threshold(*_USUAL)


class _OnDemand(MetaPathFinder):
    """Finds a few modules as they are, and has them run when something of theirs is used."""

    def __init__(self) -> None:
        self.modules = set(_ON_DEMAND)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.modules:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is not None and found.loader is not None:
            found.loader = LazyLoader(found.loader)
        return found
