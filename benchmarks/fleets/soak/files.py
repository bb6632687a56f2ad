"""How large the files of a fleet are, by what they are, against what is stated of each."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Size:
    """What the files depend on."""

    boards: int
    """Board 0 among them."""
    releases: int
    """That were booked."""
    devices: int
    """That ever were."""
    entries: int
    """Of the log of boards: one for each board, one more for each time a signature was renewed."""
    starts: int
    """Of processes, by anybody."""
    planned: int
    """Rounds of the whole training; each board's certificate lists what all of them may release."""


KB = 1_000
Bound = Callable[[Size], float]
BOARD = 16 * KB, 0.45 * KB, 0.2 * KB
"""A board of the soak's 60 items and rank 2, and what each release that its certificate lists, and each round of
the plan, adds."""


def _boards(size: Size, copies: float = 1.0) -> float:
    """Of all boards together, each of which lists the releases up to it."""
    first, more, planned = BOARD
    return copies * size.boards * (first + more * size.releases + planned * size.planned)


KINDS: Mapping[str, tuple[str, Bound]] = {
    "boards": (r"state/runs/[^/]+/(boards/.*|certificate\.json)", _boards),
    "mirror": (r"state/mirror/.*", lambda size: _boards(size, 3.0) + 8 * KB * size.entries),
    "ledger of the run": (
        r"state/runs/[^/]+/ledger\.sqlite.*",
        lambda size: 4_500 * KB + 2 * KB * size.releases,
    ),
    "log of rounds": (r"state/runs/[^/]+/rounds\.(jsonl|part)", lambda size: 4 * KB + 1.5 * KB * size.boards),
    "counts, job, locks": (
        r"state/(runs/[^/]+/(counts/.*|protocol|at-work\.lock)|job\.json|door\.json|line|server\.lock|first\.board)(\..*)?",
        lambda size: 64 * KB + KB * size.devices,
    ),
    "register": (r"state/members\.sqlite.*", lambda size: 4_500 * KB + 4 * KB * size.devices),
    "Flower": (r"state/(flower/.*|superlink\.db.*)", lambda size: 16_000 * KB),
    "logs of the server's parts": (r"state/logs/.*", lambda size: 256 * KB + 16 * KB * size.starts),
    "log of boards": (r"board-log/.*", lambda size: 40 * KB + KB * size.entries),
    "witnesses": (r"w\d/.*", lambda size: 3 * 40 * KB),
    "ledgers of devices": (
        r"(a|b|j\d+)/state/.*",
        lambda size: size.devices * (4_600 * KB + 3 * KB * size.releases),
    ),
    "boards of devices": (
        r"(a|b|j\d+)/boards/.*",
        lambda size: _boards(size, size.devices) + size.devices * KB * size.entries,
    ),
    "keys and ratings": (
        r"((a|b|j\d+)/(cohort/.*|[^/]+\.(key|pub|toml|pem|json))|(roots|holders)/.*|[^/]+\.(key|pub|pem|toml|csv|json|policy|invite))",
        lambda size: 100 * KB + 16 * KB * size.devices,
    ),
    "what the processes print": (
        r"[^/]+\.log",
        lambda size: 64 * KB + 0.3 * KB * size.boards + 4 * KB * size.starts,
    ),
}
"""Kind of file to its path below the fleet's folder and the most that all of it may take, bytes."""
OF_THE_SOAK = re.compile(
    r"log\.jsonl|die-.*|(.*/)?ballast|backups/.*|.*\.part|earlier/.*|holders/.*|keys-\d+/.*"
)
"""What the benchmark writes itself, and what is on its way."""


class Files:
    """The most that each kind ever took, and where it was more than stated."""

    def __init__(self, folder: Path) -> None:
        """Nothing was looked at."""
        self._folder, self._seen = folder, list[str]()
        self.bytes: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        self._rules = [(name, re.compile(pattern), bound) for name, (pattern, bound) in KINDS.items()]
        self._unstated: dict[str, int] = {}
        self._worst: dict[str, tuple[float, str]] = {}

    def look(self, size: Size) -> None:
        """One sample of everything."""
        taken: Counter[str] = Counter()
        numbers: dict[str, int] = defaultdict(int)
        for path in self._folder.rglob("*"):
            name = str(path.relative_to(self._folder))
            if OF_THE_SOAK.fullmatch(name):
                continue
            try:
                number = path.stat().st_size if path.is_file() and not path.is_symlink() else None
            except OSError:
                continue  # it went just now
            if number is None:
                continue
            kind = next((kind for kind, pattern, _ in self._rules if pattern.fullmatch(name)), None)
            if kind is None:
                self._unstated[name] = max(self._unstated.get(name, 0), number)
                continue
            taken[kind] += number
            numbers[kind] += 1
        self.bytes, self.numbers = dict(taken), dict(numbers)
        for kind, _, bound in self._rules:
            share = taken[kind] / bound(size)
            if share > self._worst.get(kind, (0.0, ""))[0]:
                told = f"{kind}: {taken[kind]} bytes, stated are {bound(size):.0f} at {size}"
                self._worst[kind] = (share, told)

    def problems(self) -> list[str]:
        """Kinds that took more than stated, and files that are of no kind."""
        found = [told for share, told in self._worst.values() if share > 1.0]
        return found + [
            f"a file of no stated kind: {name}, {size} bytes" for name, size in self._unstated.items()
        ]

    def told(self) -> dict[str, dict[str, float]]:
        """For the report: bytes at the end, files, and the largest share of what is stated that was ever taken."""
        return {
            kind: {
                "bytes": self.bytes.get(kind, 0),
                "files": self.numbers.get(kind, 0),
                "most_of_stated": round(self._worst.get(kind, (0.0, ""))[0], 3),
            }
            for kind in KINDS
        }
