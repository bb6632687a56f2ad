"""What came of the messages: counted for each parser, added up over processes and runs, shown and written."""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleets.fuzz.trials import Outcome

COUNTED = ("messages", "read", "refused", "crashes", "hangs", "cpu_seconds")
"""Numbers that add up."""
REACHED = ("places", "branches")
"""Of two runs the larger number is stated: they reach mostly the same."""
_KINDS = {"value": "read", "refused": "refused", "crash": "crashes", "hang": "hangs"}


@dataclass(slots=True)
class Tally:
    """What came of the messages of one parser."""

    messages: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    places: set[str] = field(default_factory=set)
    branches: int = 0
    """The most that one process has reached."""
    cpu_seconds: float = 0.0
    memory: int = 0
    """Bytes that a process had at most."""
    found: dict[str, tuple[str, str, bytes, int]] = field(default_factory=dict)
    """By place: kind, detail, the shortest message, how many."""

    def take(self, content: bytes, outcome: Outcome) -> None:
        """Count one."""
        self.messages += 1
        self.kinds[outcome.kind] += 1
        self.places.add(outcome.place)
        if outcome.kind in ("crash", "hang"):
            self._hold(outcome.place, outcome.kind, outcome.detail, content, 1)

    def add(self, other: "Tally") -> None:
        """Count what another process has counted."""
        self.messages += other.messages
        self.kinds += other.kinds
        self.places |= other.places
        self.branches, self.memory = max(self.branches, other.branches), max(self.memory, other.memory)
        self.cpu_seconds += other.cpu_seconds
        for place, (kind, detail, content, many) in other.found.items():
            self._hold(place, kind, detail, content, many)

    def report(self) -> dict[str, float]:
        """Numbers."""
        kinds = {name: self.kinds[kind] for kind, name in _KINDS.items()}
        reached = {"places": len(self.places), "branches": self.branches}
        return {"messages": self.messages, **kinds, **reached, "cpu_seconds": round(self.cpu_seconds, 1)}

    def _hold(self, place: str, kind: str, detail: str, content: bytes, many: int) -> None:
        held = self.found.get(place, (kind, detail, content, 0))
        shortest = min(held[2], content, key=len)
        self.found[place] = (kind, detail or held[1], shortest, held[3] + many)


def report_of(tallies: Mapping[str, Tally]) -> dict[str, Any]:
    """For people and programs."""
    each = {name: tally.report() for name, tally in tallies.items()}
    found = [
        {
            "parser": name,
            "kind": kind,
            "place": place,
            "detail": detail,
            "times": many,
            "bytes": len(content),
        }
        for name, tally in tallies.items()
        for place, (kind, detail, content, many) in tally.found.items()
    ]
    memory = max((tally.memory for tally in tallies.values()), default=0)
    return _with_cost({**_sums(each), "parsers": each, "found": found, "peak_memory_mb": memory >> 20})


def merged(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One report of several runs."""
    each: dict[str, dict[str, float]] = {}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for report in reports:
        for name, one in report["parsers"].items():
            before = each.setdefault(name, dict.fromkeys((*COUNTED, *REACHED), 0))
            for key in COUNTED:
                before[key] = round(before[key] + one[key], 1)
            for key in REACHED:
                before[key] = max(before[key], one[key])
        for one in report["found"]:
            held = found.setdefault((one["parser"], one["place"]), {**one, "times": 0})
            held["times"] += one["times"]
    about = {"seconds": round(sum(one["seconds"] for one in reports), 1)}
    about["peak_memory_mb"] = max(one["peak_memory_mb"] for one in reports)
    return _with_cost({**_sums(each), "parsers": each, "found": list(found.values()), **about})


def _with_cost(report: dict[str, Any]) -> dict[str, Any]:
    """With the processor time of a message: making it, trying it, and following it through the code."""
    cost = 1e3 * report["cpu_seconds"] / max(1, report["messages"])
    return {**report, "cpu_ms_per_message": round(cost, 3)}


def _sums(each: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    keys = ("messages", "crashes", "hangs", "cpu_seconds")
    return {key: round(sum(one[key] for one in each.values()), 1) for key in keys}


def keep(tallies: Mapping[str, Tally], folder: Path) -> None:
    """The shortest message of each kind of crash and hang, as files."""
    for name, tally in tallies.items():
        for number, (_, _, content, _) in enumerate(tally.found.values()):
            place = folder / name.replace("/", "-") / f"{number:02d}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def write(report: Mapping[str, Any], place: Path) -> None:
    """Whole, or as it was."""
    beside = place.with_name(f"{place.name}.part")
    beside.write_text(json.dumps(report, indent=1) + "\n")
    os.replace(beside, place)


def show(report: Mapping[str, Any]) -> None:
    """A line for each parser, and what was found."""
    columns = (*COUNTED, *REACHED)
    print(f"\n{'parser':34} " + " ".join(f"{key:>9}" for key in columns))
    for name, one in {**report["parsers"], "all": report}.items():
        print(f"{name:34} " + " ".join(f"{one.get(key, ''):>9}" for key in columns))
    for one in report["found"]:
        print(f"\n{one['kind']} of {one['parser']}, {one['times']} times: {one['place']}\n{one['detail']}")
    print(
        f"\n{report['cpu_ms_per_message']} ms of processor time a message, {report['peak_memory_mb']} MB at most"
    )
