"""Hostile messages against all parsers: those found once, what the product makes, and the search itself."""

import importlib.util
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CORPUS = Path(__file__).parents[1] / "fuzz_corpus"
FOUND = sorted(path for path in CORPUS.rglob("*") if path.is_file())
LARGE_CELL = b"item,year,genres\n1,1951," + b"x" * 131_073 + b"\n"
PATIENCE = 20.0
"""Seconds of processor time; hangs among the messages that were found took for ever."""


@pytest.fixture(scope="module")
def targets() -> dict[str, Any]:
    sys.path.insert(0, str(BENCHMARKS))
    from fleets.fuzz_boards import board_targets
    from fleets.fuzz_files import file_targets
    from fleets.fuzz_port import port_targets
    from fleets.fuzz_sessions import session_targets

    found = {**port_targets(), **board_targets(), **session_targets(), **file_targets()}
    return {name.replace("/", "-"): target for name, target in found.items()}


@contextmanager
def within(seconds: float) -> Iterator[None]:
    def ring(_: int, __: Any) -> NoReturn:
        pytest.fail("the parser does not come to an end")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def read_or_refused(target: Any, content: bytes) -> str:
    try:
        with within(PATIENCE):
            target.read(content)
    except target.refusals:
        return "refused"
    return "read"


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_once_is_read_or_refused(path: Path, targets: dict[str, Any]) -> None:
    """Each of these messages was a crash or a hang of its parser."""
    assert read_or_refused(targets[path.parent.name], path.read_bytes())


def test_a_table_with_a_cell_of_any_size_is_no_table(targets: dict[str, Any]) -> None:
    assert read_or_refused(targets["file-features-table"], LARGE_CELL) == "refused"


def test_what_the_product_makes_is_read(targets: dict[str, Any]) -> None:
    """Mutants of a message that is refused itself would say little."""
    unread = [
        (name, number)
        for name, target in targets.items()
        for number, content in enumerate(target.specimens)
        if read_or_refused(target, content) == "refused"
    ]

    assert len(targets) >= 55
    assert unread == []


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is for Linux, see [dev]")
def test_the_search_finds_broken_parsers_and_nothing_in_a_sound_one(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = ("--controls", "--runs", "900", "--processes", "1", "--seconds", "0.5", "--json", str(out))
    words += ("--target", "sound", "--target", "bare-error", "--target", "endless", "--keep", str(tmp_path))
    command = [sys.executable, str(BENCHMARKS / "fuzz.py"), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)

    assert out.exists(), ended.stdout + ended.stderr
    found = json.loads(out.read_text())["parsers"]
    assert ended.returncode == 1
    assert {name: (one["crashes"] > 0, one["hangs"] > 0) for name, one in found.items()} == {
        "control/sound": (False, False),
        "control/bare-error": (True, False),
        "control/endless": (False, True),
    }
    assert list((tmp_path / "control-bare-error").iterdir())
