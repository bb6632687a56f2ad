"""What a process takes of memory, as Linux says."""

from pathlib import Path


def resident(name: str) -> int:
    """Of this process, bytes: ``VmRSS`` for now, ``VmHWM`` for the most since the last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def forget_peak() -> None:
    """The peak begins anew."""
    Path("/proc/self/clear_refs").write_text("5")
