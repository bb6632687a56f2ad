"""Processor time of a run whose workers are processes that it did not start itself."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_TIMES: Final = slice(11, 15)
"""User and system time of a process and of its children that have ended, behind its name in ``stat``."""


def cpu_seconds() -> float:
    """Of this process and of all that it started, so far.

    Workers are children of a process that starts them and lives on, so that what they took is not among that of our
    own children. Where there is no ``/proc`` it is left out.
    """
    try:
        from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
    except ImportError:  # Windows
        return time.process_time()
    used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    own = sum(each.ru_utime + each.ru_stime for each in used)
    return own + sum(map(_with_its_ended, _below(os.getpid())))


def _below(process: int) -> list[int]:
    """All that descend from a process and live."""
    found: list[int] = []
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # it has ended meanwhile
            for child in map(int, tasks.read_text().split()):
                found += [child, *_below(child)]
    return found


def _with_its_ended(process: int) -> float:
    """User and system time of a process and of those of its children that have ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[_TIMES])) / os.sysconf("SC_CLK_TCK")
