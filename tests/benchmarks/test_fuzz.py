"""Hostile messages against all parsers: those found once, some thousands of new ones, and the search itself."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.thorough import examples

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
CORPUS = Path(__file__).parent.parent / "fuzz_corpus"
FOUND = sorted(path for path in CORPUS.rglob("*") if path.is_file())
LARGE_CELL = b"item,year,genres\n1,1951," + b"x" * 131_073 + b"\n"
MESSAGES = examples(2500, thorough=6000)
"""New ones: the millions are for ``benchmarks/fuzz.py``."""
PATIENCE = 20.0
"""Seconds of processor time; hangs among the messages that were found took for ever."""


@pytest.fixture(scope="module")
def parsers() -> dict[str, Any]:
    sys.path.insert(0, str(BENCHMARKS))
    from fleets.fuzz import parsers as fuzz_parsers

    return {one.name.replace("/", "-"): one for one in fuzz_parsers.all_parsers()}


@pytest.fixture(scope="module")
def trials() -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    from fleets.fuzz import trials as fuzz_trials

    return fuzz_trials


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_once_is_read_or_refused(
    path: Path, parsers: dict[str, Any], trials: ModuleType
) -> None:
    """Each of these messages was a crash or a hang of its parser."""
    outcome = trials.tried(parsers[path.parent.name], path.read_bytes(), PATIENCE)

    assert outcome.kind in ("value", "refused"), outcome


def test_a_table_with_a_cell_of_any_size_is_no_table(parsers: dict[str, Any], trials: ModuleType) -> None:
    assert trials.tried(parsers["file-features-table"], LARGE_CELL, PATIENCE).kind == "refused"


def searched(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report of the benchmark, in processes of its own with their bound on memory."""
    out = folder / "out.json"
    command = [sys.executable, str(BENCHMARKS / "fuzz.py"), "--json", str(out), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert out.exists(), ended.stdout + ended.stderr
    found: dict[str, Any] = json.loads(out.read_text())
    return ended.returncode, found


def kinds(found: dict[str, Any]) -> dict[str, Sequence[int]]:
    return {name: (one["crashes"] > 0, one["hangs"] > 0) for name, one in found["parsers"].items()}


@pytest.mark.slow
def test_new_mutants_crash_no_parser_and_keep_none_busy(tmp_path: Path) -> None:
    words = ("--messages", str(MESSAGES), "--processes", "1", "--seconds", str(PATIENCE))
    code, found = searched(tmp_path, *words)

    assert (code, found["crashes"], found["hangs"]) == (0, 0, 0), found["found"]
    assert found["messages"] >= MESSAGES - 100
    assert len(found["parsers"]) >= 50
    assert sum(one["read"] for one in found["parsers"].values()) > 100
    assert sum(one["places"] for one in found["parsers"].values()) > 600


@pytest.mark.slow
def test_parsers_that_are_broken_on_purpose_are_found(tmp_path: Path) -> None:
    words = ("--controls", "--messages", "1500", "--processes", "2", "--seconds", "0.2", "--silence", "10")
    code, found = searched(tmp_path, *words, "--keep", str(tmp_path / "kept"))

    assert code == 1
    assert kinds(found) == {
        "control/sound": (False, False),
        "control/bare-error": (True, False),
        "control/endless": (False, True),
        "control/sleeping": (False, True),
        "control/greedy": (True, False),
        "control/dying": (True, False),
    }
    assert found["messages"] == 1500
    assert (tmp_path / "kept" / "control-dying" / "00").read_bytes().startswith(b"{")
