"""CPU time and memory of processes, from /proc; on systems without it those of others are 0."""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

_SECONDS_BETWEEN_LOOKS = 0.05
_CPU_FIELDS = slice(11, 13)  # user and system time, counted behind the command's name
_CPU_FIELDS_WITH_ENDED = slice(11, 15)
_KB_PER_GB = 2**20


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[_CPU_FIELDS])) / os.sysconf("SC_CLK_TCK")


def peak_memory(process: "subprocess.Popen[str]") -> float:
    """Watch a process and its children until it ends; returns the most memory they held together, GB.

    Proportional set size: a page that several processes share counts once.
    """
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, sum(map(_proportional_set_kb, family(process.pid))) / _KB_PER_GB)
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return peak


def memory(pid: int) -> float:
    """Proportional set size of a process and its children now, GB."""
    return sum(map(own_memory, family(pid)))


def own_memory(pid: int) -> float:
    """The same of this process alone."""
    return _proportional_set_kb(pid) / _KB_PER_GB


def own_peak_mib() -> float:
    """The most memory that this process held since its program began, MiB: resident pages, without those of its
    children and of whoever started it.

    ``ru_maxrss`` says something else on Linux: it outlives ``exec``, and so begins with what the process held that
    started this one, since the two share their memory until then.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # macOS, whose ``ru_maxrss`` is of this program alone, in bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
            2**20 if sys.platform == "darwin" else 2**10
        )
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 2**10


def tree_cpu_seconds(pid: int) -> float:
    """CPU time of a process, its children and those that have ended and were waited for."""
    return sum(map(_cpu_with_ended, family(pid)))


def _cpu_with_ended(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[_CPU_FIELDS_WITH_ENDED])) / os.sysconf("SC_CLK_TCK")


def bytes_read(pid: int) -> int:
    """What a process and its children have read from files and pipes so far."""
    return sum(map(_bytes_read, family(pid)))


def _bytes_read(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("rchar:")), 0)


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(member for child in children for member in family(int(child)))]


def _proportional_set_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
