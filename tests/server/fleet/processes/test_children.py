"""Children: started again whenever they end, ended with all that is theirs, never left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fedboard.server.fleet.processes.children import Child
from fedboard.server.fleet.processes.work_locks import alone

pytestmark = pytest.mark.slow


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return not Path("/proc").exists()


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_child_is_started_again_whatever_its_exit_status(tmp_path: Path) -> None:
    for status in ("0", "3"):
        child = Child(
            name="short",
            command=[sys.executable, "-c", f"raise SystemExit({status})"],
            log=tmp_path / "log",
        )

        wait_for(lambda child=child: bool(child.tend() or child.starts) and child.starts >= 3)

        child.stop()


def test_how_a_child_ended_is_told_with_its_last_line_of_that_life(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for code, told in (
        (
            "print('starting', flush=True); raise SystemExit('8443 is in use')",
            "exit status 1: 8443 is in use",
        ),
        ("raise SystemExit(3)", f"exit status 3, nothing in {log}"),
    ):
        child = Child(name="failing", command=[sys.executable, "-c", code], log=log)

        wait_for(lambda child=child: child.tend() and child.starts == 2)

        assert child.ended == told
        child.stop()
        assert child.ended == "it was stopped"


def test_stopping_a_child_ends_what_it_started_though_it_does_not_listen(tmp_path: Path) -> None:
    below = tmp_path / "pid"
    stubborn = textwrap.dedent(f"""
        import pathlib, signal, subprocess, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        pathlib.Path({str(below)!r}).write_text(str(started.pid))
        time.sleep(600)
    """)
    child = Child(name="stubborn", command=[sys.executable, "-c", stubborn], log=tmp_path / "log")
    child.tend()
    wait_for(lambda: below.exists() and below.read_text() != "")
    pids = [int(below.read_text()), child.pid or 0]
    assert all(map(lives, pids))

    child.stop()

    assert not any(map(lives, pids))
    assert child.pid is None


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    with_lifeline = f"""
import os, pathlib, time
from fedboard.server.fleet.processes.lifeline import end_with_parent
end_with_parent()
pathlib.Path({str(told)!r}).write_text(str(os.getpid()))
time.sleep(600)
"""
    parent_code = f"""
import pathlib, sys, time
from fedboard.server.fleet.processes.children import Child
Child(name="c", command=[sys.executable, "-c", {with_lifeline!r}], log=pathlib.Path({str(told)!r} + ".log")).tend()
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", parent_code])
    wait_for(lambda: told.exists() and told.read_text() != "")
    child = int(told.read_text())
    assert lives(child)

    parent.send_signal(signal.SIGKILL)
    parent.wait()

    wait_for(lambda: not lives(child))


def test_what_a_child_started_ends_when_the_server_that_holds_the_lock_is_killed(tmp_path: Path) -> None:
    lock, told = tmp_path / "server.lock", tmp_path / "pid"
    below_code = f"""
import os, pathlib, time
from fedboard.server.fleet.processes.lifeline import end_with_holder
end_with_holder(pathlib.Path({str(lock)!r}))
pathlib.Path({str(told)!r}).write_text(str(os.getpid()))
time.sleep(600)
"""
    server_code = f"""
import pathlib, subprocess, sys, time
from fedboard.server.fleet.processes.work_locks import alone
with alone(pathlib.Path({str(lock)!r})):
    subprocess.Popen([sys.executable, "-c", {below_code!r}], start_new_session=True)
    time.sleep(600)
"""
    server = subprocess.Popen([sys.executable, "-c", server_code])
    wait_for(lambda: told.exists() and told.read_text() != "")
    below = int(told.read_text())
    time.sleep(0.5)
    assert lives(below)

    server.send_signal(signal.SIGKILL)
    server.wait()

    wait_for(lambda: not lives(below))
    with alone(lock):
        pass  # nothing of the old server is in the next one's way


def test_what_a_child_writes_is_its_owners_only(tmp_path: Path) -> None:
    written, log = tmp_path / "written", tmp_path / "log"
    child = Child(
        name="writer",
        command=[sys.executable, "-c", f"print(open({str(written)!r}, 'w').name, flush=True)"],
        log=log,
    )

    child.tend()
    wait_for(lambda: log.exists() and log.read_text() != "")

    assert (written.stat().st_mode & 0o777, log.stat().st_mode & 0o777) == (0o600, 0o600)
    child.stop()
