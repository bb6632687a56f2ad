"""Child processes that are started again whenever they end, whatever their exit status says."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_STEADY_SECONDS = 60.0
"""A child that ran as long is forgiven its earlier failures."""
_STOP_SECONDS = 3.0
_LARGEST_LOG_BYTES = 10_000_000
_LAST_BYTES, _LONGEST_LINE = 10_000, 300
"""Of a log, where the last line is looked for; of that line, in characters."""


@dataclass(slots=True, kw_only=True)
class Child:
    """One process of the server, supervised. Its standard input is a lifeline, see ``lifeline``."""

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str] | None = None
    starts: int = 0
    ended: str = ""
    """How its last life ended: the exit status, and the last line that it wrote to its log in that life."""
    _log_began: int = 0
    _process: "subprocess.Popen[bytes] | None" = None
    _started: float = 0.0
    _next_start: float = 0.0
    _wait: float = field(default=_FIRST_WAIT)

    @property
    def pid(self) -> int | None:
        """Its process id, while it runs."""
        return None if self._process is None else self._process.pid

    def tend(self) -> bool:
        """Start it if it is not running and its time has come; True if it was started just now."""
        now = time.monotonic()
        if self._process is not None:
            if self._process.poll() is None:
                return False
            self.ended = f"exit status {self._process.returncode}{self._last_line()}"
            self._wait = _FIRST_WAIT if now - self._started > _STEADY_SECONDS else self._wait
            self._next_start = now + self._wait
            self._wait = min(2 * self._wait, _LONGEST_WAIT)
            self._let_go()
        if now < self._next_start:
            return False
        with self._open_log() as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self.environment,
                umask=0o077,  # what it writes is its owner's only
            )
        self._started, self.starts = now, self.starts + 1
        return True

    def stop(self) -> None:
        """End it and all that it started: asked first, then made to."""
        if self._process is None:
            return
        below = _descendants(self._process.pid)
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.ended = "it was stopped"
        self._let_go()
        _end(below)

    def _last_line(self) -> str:
        content = b""
        with suppress(OSError), self.log.open("rb") as log:  # somebody may have moved it away
            log.seek(max(self._log_began, self.log.stat().st_size - _LAST_BYTES))
            content = log.read()
        lines = content.decode(errors="replace").split("\n")
        found = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {found[:_LONGEST_LINE]}" if found else f", nothing in {self.log}"

    def _let_go(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None

    def _open_log(self) -> IO[bytes]:
        """The log, begun anew when it is large; the one before is kept."""
        if self.log.exists() and self.log.stat().st_size > _LARGEST_LOG_BYTES:
            os.replace(self.log, self.log.with_suffix(".log.1"))
        handle = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._log_began = os.fstat(handle).st_size
        return os.fdopen(handle, "ab")


def _descendants(pid: int) -> list[int]:
    """Processes that were started by this one, or by those."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False)
    children: dict[int, list[int]] = {}
    for line in listed.stdout.splitlines():
        child, parent = map(int, line.split())
        children.setdefault(parent, []).append(child)
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found[1:]


def _end(pids: Sequence[int]) -> None:
    """End processes that are not our children: asked first, then made to."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _STOP_SECONDS
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        while any(map(_lives, pids)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not any(map(_lives, pids)):
            return


def _lives(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
