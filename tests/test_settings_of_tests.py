"""No test is timed: an example of a property that takes long on a busy machine is not a failure."""

import subprocess
import sys
from pathlib import Path

SLOW = """
import time

from hypothesis import given, settings
from hypothesis import strategies as st


@given(st.booleans())
@settings(max_examples=2)
def test_slow(value):
    time.sleep(0.5)  # beyond Hypothesis' own deadline of 0.2 s
"""


def test_an_example_of_a_property_may_take_as_long_as_it_takes(tmp_path: Path) -> None:
    root = Path(__file__).parent
    (tmp_path / "conftest.py").write_text((root / "conftest.py").read_text())
    (tmp_path / "test_slow.py").write_text(SLOW)

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_slow.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout
