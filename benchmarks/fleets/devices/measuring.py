"""What the processes of a server cost: CPU seconds of each part, memory of all together."""

import threading
from pathlib import Path
from typing import Any

from process_tree import cpu_seconds, family, own_memory

_PARTS = {
    "superlink": "processes.superlink",
    "door": "processes.proxy_process",
    "round loop": "flwr-serverapp",
    "starter of the round loop": "flower-superexec",
    "supervisor": "fleet.toml",
}
_SECONDS = 1.0


class ServerWatch:
    """Looks at a server's processes about once a second; processes that have ended stay counted."""

    def __init__(self, pid: int) -> None:
        """Begin.

        Args:
            pid: of ``fedboard server``.
        """
        self._pid = pid
        self._cpu: dict[tuple[int, str], float] = {}
        self.peak_memory = 0.0
        """GB, proportional set size of all together."""
        self.peaks = dict.fromkeys((*_PARTS, "other"), 0.0)
        """The same of each part by itself."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far by part."""
        self._look()
        found = dict.fromkeys((*_PARTS, "other"), 0.0)
        for (_, part), seconds in self._cpu.copy().items():
            found[part] += seconds
        return found

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_SECONDS):
            self._look()
            now = dict.fromkeys((*_PARTS, "other"), 0.0)
            for pid in family(self._pid):
                now[_part(pid)] += own_memory(pid)
            for part, held in now.items():
                self.peaks[part] = max(self.peaks[part], round(held, 3))
            self.peak_memory = max(self.peak_memory, sum(now.values()))

    def _look(self) -> None:
        for pid in family(self._pid):
            used = cpu_seconds(pid)
            if used:
                self._cpu[pid, _part(pid)] = used


def _part(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "other"
    return next((name for name, word in _PARTS.items() if word in words), "other")


def spent(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """CPU seconds in between."""
    return {part: round(after[part] - before[part], 2) for part in after}


def merged(told: list[dict[str, Any]], what: str) -> dict[str, float]:
    """Percentiles of several processes as one: the worst of each, and the mean of all."""
    found = [one[what] for one in told if one.get(what, {}).get("number")]
    if not found:
        return {"number": 0}
    number = sum(one["number"] for one in found)
    return {
        "number": number,
        "mean": sum(one["mean"] * one["number"] for one in found) / number,
        **{key: max(one[key] for one in found) for key in ("median", "p99", "largest")},
    }
