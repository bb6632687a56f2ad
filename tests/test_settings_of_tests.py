"""What holds for all tests: none is timed (an example of a property that takes long is no failure), ``--fast``
leaves out what is marked ``slow``, and what is marked ``thorough`` runs with ``--thorough`` alone.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.conftest import IN_A_BROWSER, LONGEST, has_room

ROOT = Path(__file__).parents[1]

SLOW = """
import time

from hypothesis import given, settings
from hypothesis import strategies as st


@given(st.booleans())
@settings(max_examples=2)
def test_slow(value):
    time.sleep(0.5)  # beyond Hypothesis' own deadline of 0.2 s
"""


def run_pytest(
    folder: Path, files: dict[str, str], *words: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """These files under the settings of all tests."""
    ours = {
        name: value for name, value in os.environ.items() if name not in ("TMPDIR", "PYTEST_DEBUG_TEMPROOT")
    }
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    for name, content in files.items():
        (folder / name).write_text(content)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
        cwd=folder,
        env={**ours, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},  # ours need none
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_an_example_of_a_property_may_take_as_long_as_it_takes(tmp_path: Path) -> None:
    ended = run_pytest(tmp_path, {"test_slow.py": SLOW}, "-q")

    assert ended.returncode == 0, ended.stdout


MIXED = """
import pytest

def test_new(): ...

@pytest.mark.slow
def test_marked(): raise AssertionError("it was left out")
"""
ALL_SLOW = """
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
]
raise ImportError("not even imported")
"""


def test_fast_leaves_out_what_is_marked_and_nothing_else(tmp_path: Path) -> None:
    files = {"test_mixed.py": MIXED, "test_all_slow.py": ALL_SLOW}

    fast = run_pytest(tmp_path, files, "--fast")
    assert fast.returncode == 0, fast.stdout
    assert "1 passed, 1 deselected" in fast.stdout

    everything = run_pytest(tmp_path, files, "--continue-on-collection-errors")
    assert "it was left out" in everything.stdout
    assert "not even imported" in everything.stdout


THOROUGH = """
import pytest
from tests.thorough import examples

def test_each_time():
    print(f"{examples(2, thorough=50)} examples")

@pytest.mark.parametrize("name", ["usual", pytest.param("rare", marks=pytest.mark.thorough)])
def test_more(name): ...
"""


def test_only_a_thorough_run_does_what_is_marked_so_and_draws_the_many_examples(tmp_path: Path) -> None:
    files = {"test_more.py": THOROUGH}

    usual = run_pytest(tmp_path, files, "-s", PYTHONPATH=str(ROOT))
    all_of_it = run_pytest(tmp_path, files, "-s", "--thorough", PYTHONPATH=str(ROOT))

    assert "2 passed, 1 deselected" in usual.stdout, usual.stdout
    assert "2 examples" in usual.stdout
    assert "3 passed" in all_of_it.stdout
    assert "50 examples" in all_of_it.stdout


def test_files_with_slow_tests_come_first(tmp_path: Path) -> None:
    slow = MIXED.replace("raise AssertionError", "str")
    files = {"test_a.py": "def test_a(): ...", "test_b.py": slow, "test_c.py": "def test_c(): ..."}

    ended = run_pytest(tmp_path, files, "-v")

    ran = [line.split("::")[0] for line in ended.stdout.splitlines() if "PASSED" in line]
    assert ran == ["test_b.py", "test_b.py", "test_a.py", "test_c.py"]


def test_files_that_are_named_are_there_and_those_in_a_browser_are_all_that_look_into_one() -> None:
    tests = ROOT / "tests"
    looking = [
        path for path in tests.rglob("test_*.py") if "\nfrom tests.client.page.browser" in path.read_text()
    ]

    assert {path.relative_to(ROOT).as_posix() for path in looking} == IN_A_BROWSER
    assert [name for name in LONGEST if not (tests / name).is_file()] == []


def test_temporary_folders_are_where_one_says_or_in_memory_where_that_has_room(tmp_path: Path) -> None:
    files = {"test_place.py": "def test_place(tmp_path): print(f'at {tmp_path}')"}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    said = run_pytest(tmp_path, files, "-s", TMPDIR=str(elsewhere))
    usual = run_pytest(tmp_path, files, "-s")

    assert f"at {elsewhere}" in said.stdout
    assert ("at /dev/shm/" in usual.stdout) == has_room(Path("/dev/shm"))


def test_a_disk_that_is_not_there_has_no_room(tmp_path: Path) -> None:
    assert not has_room(tmp_path / "nowhere")
