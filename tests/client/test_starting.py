"""A process that starts quickly can do what any other can, and only our own processes start so."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SEEN = """
import gc, json, sys

def seen():
    finders = [type(finder).__module__ for finder in sys.meta_path]
    return {
        "objects": gc.get_threshold()[0],
        "finders": finders.count("fedboard.client.starting"),
        "read": "numpy.testing._private.utils" in sys.modules,
    }
"""
IMPORTED = f"""{SEEN}
first = seen()
import fedboard.cli.main
import fedboard.simulations.engine.runtime, scipy.special
print(json.dumps([first, seen()]))
"""
COMMAND = f"""{SEEN}
from fedboard.cli.main import main

usual = gc.get_threshold()
sys.argv[1:] = ["account", "--noise-multiplier", "4", "--delta", "1e-6"]
try:
    main()
except SystemExit as ended:
    code = ended.code
import scipy.special, scipy.sparse
quick = seen()
from fedboard.client.starting import start_quickly
start_quickly()
import numpy
used = [numpy.testing.assert_array_equal([1], [1]), numpy.f2py.__name__]
after = seen()
from fedboard.client.starting import lives_on
lives_on()
print(json.dumps([code, quick, used, after, gc.get_threshold() == usual and gc.get_freeze_count() > 10_000]))
"""


def told(script: str) -> list[object]:
    """The last line that a process prints."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found: list[object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_what_is_imported_as_a_library_changes_nothing_of_its_process() -> None:
    first, after = told(IMPORTED)

    assert isinstance(after, dict)
    assert isinstance(first, dict)
    assert after["read"]  # what SciPy asks NumPy for; else the other test would show nothing
    assert {**after, "read": first["read"]} == first


def test_a_command_leaves_unread_what_nobody_uses_and_has_it_when_somebody_does() -> None:
    code, quick, used, after, looked_after = told(COMMAND)

    assert code == 0
    assert quick == {"objects": 20_000, "finders": 1, "read": False}
    assert used[0] is None  # type: ignore[index]
    assert used[1]  # type: ignore[index]
    assert after == {**quick, "read": True}  # type: ignore[dict-item]
    assert looked_after  # by whoever lives on
