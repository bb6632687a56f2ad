"""How much memory each process of a fleet holds as rounds go by, one life of a process at a time."""

import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from fleets.deployment import Deployment

PARTS = {
    "processes.superlink": "SuperLink",
    "flower-superexec": "SuperExec",
    "flwr-serverapp": "ServerApp",
    "proxy_process": "proxy",
    "board_process": "board service",
    "part.py board": "board service",
    "part.py server": "supervisor",
    "part.py client": "device",
    "witness --key": "witness",
}
"""Words of a command line to what it is."""
LEAST_ROUNDS, WARM_ROUNDS, WARM_SECONDS = 8, 2, 10.0
"""A life is judged that saw so many rounds after so many, and after so many seconds, in which it warms up."""
PER_ROUND_MB = {
    "ServerApp": 0.35,
    "SuperLink": 0.35,
    "board service": 0.35,
    "supervisor": 0.1,
    "proxy": 0.2,
    "device": 0.2,
    "witness": 0.05,
    "SuperExec": 0.1,
}
"""Anonymous memory that a process may grow by, a round. Of the server's parts: boards, each of whose certificates
lists all releases before it. In 100 rounds that nobody disturbs SuperLink, ServerApp and proxy grow by 0.09, 0.04
and 0.03 a round; a week's lives have 10 to 60 rounds, in which a process still takes what it then keeps."""
LONG_LIFE_ROUNDS = 30
SHORT_LIFE_MB = 0.4
"""A round, beyond what is stated, of a life of fewer rounds: it is not over with what it takes once."""
SETTLES_MB = 12.0
"""And in all, however few its rounds were: allocators keep what they once needed."""


@dataclass
class Life:
    """One process."""

    part: str
    samples: list[tuple[float, int, float]] = field(default_factory=list)
    """(seconds, rounds made so far, MB)."""
    most_files: int = 0
    """File descriptors."""

    def by_round(self) -> dict[int, float]:
        """Number of rounds to the least that it held while there were so many, warm."""
        if not self.samples:
            return {}
        began, first = self.samples[0][0], self.samples[0][1]
        held = defaultdict(list)
        for at, rounds, megabytes in self.samples:
            if at - began >= WARM_SECONDS and rounds - first >= WARM_ROUNDS:
                held[rounds].append(megabytes)
        return {rounds: min(values) for rounds, values in held.items()}

    def growth(self) -> dict[str, Any] | None:
        """What it grew by; None for a life that is too short to tell."""
        held = self.by_round()
        if len(held) < LEAST_ROUNDS:
            return None
        slopes = [(held[b] - held[a]) / (b - a) for a, b in combinations(sorted(held), 2)]
        slope, rounds = statistics.median(slopes), max(held) - min(held)
        third = max(len(held) // 3, 1)
        ordered = [held[number] for number in sorted(held)]
        grown = statistics.median(ordered[-third:]) - statistics.median(ordered[:third])
        return {
            "part": self.part,
            "rounds": rounds,
            "mb_per_round": round(slope, 4),
            "grown_mb": round(grown, 3),
            "bound_mb": round(SETTLES_MB + PER_ROUND_MB.get(self.part, 0.1) * rounds, 2),
            "last_mb": round(ordered[-1], 1),
            "files": self.most_files,
        }


class Memory:
    """Of all processes below a deployment."""

    def __init__(self) -> None:
        """Nothing was looked at."""
        self.lives: dict[tuple[int, str], Life] = {}

    def look(self, fleet: Deployment, at: float, rounds: int) -> None:
        """One sample of each."""
        for pid in fleet.look():
            if (found := _anonymous_mb(pid)) is None:
                continue
            command = _words(pid)
            part = next((name for words, name in PARTS.items() if words in command), None)
            if part is None:
                continue  # a command that the fleet runs and that is over in a moment
            self.held((pid, part), part, at, rounds, found)
            life = self.lives[pid, part]
            life.most_files = max(life.most_files, _descriptors(pid))

    def held(self, who: tuple[int, str], part: str, at: float, rounds: int, megabytes: float) -> None:
        """What one process held."""
        self.lives.setdefault(who, Life(part)).samples.append((at, rounds, megabytes))

    def growths(self) -> list[dict[str, Any]]:
        """Of all lives that can be judged."""
        return [found for life in self.lives.values() if (found := life.growth()) is not None]

    def problems(self) -> list[str]:
        """Lives that grew by more than is stated."""
        return [
            f"a {one['part']} grew by {one['grown_mb']} MB in {one['rounds']} rounds, {one['mb_per_round']} MB a "
            f"round; stated is {one['bound_mb']} MB at most"
            for one in self.growths()
            if one["mb_per_round"] > PER_ROUND_MB.get(one["part"], 0.1) and _is_growth(one)
        ]

    def peaks(self) -> dict[str, float]:
        """The most that one process of each part held, MB."""
        found: dict[str, float] = {}
        for life in self.lives.values():
            most = max(megabytes for _, _, megabytes in life.samples)
            found[life.part] = round(max(found.get(life.part, 0.0), most), 1)
        return found


def _is_growth(one: dict[str, Any]) -> bool:
    """Beyond what settles: twice what is stated a round is a leak however small, in a life long enough."""
    stated = PER_ROUND_MB.get(one["part"], 0.1)
    most = 2 * stated if one["rounds"] >= LONG_LIFE_ROUNDS else stated + SHORT_LIFE_MB
    return one["grown_mb"] > one["bound_mb"] or one["mb_per_round"] > most


def _anonymous_mb(pid: int) -> float | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:")), None)


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _descriptors(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0
