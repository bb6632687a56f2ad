"""One soak from its first process to its last: a fleet, what happens to it, who looks, and what is found."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleets.soak.audit import LOST, UNDERBOOKED, audited
from fleets.soak.clocks import DAY, Clocks
from fleets.soak.fleet import WITNESSES, WeekFleet
from fleets.soak.happenings import Happenings
from fleets.soak.people import GATEWAYS
from fleets.soak.plan import Event, events
from fleets.soak.watch import Watch

_FIRST_ROUND_SECONDS, _CALM_SECONDS, _LAST_BOARD_SECONDS = 180.0, 120.0, 60.0
_TICK_SECONDS = 0.2


@dataclass(kw_only=True)
class Week:
    """A soak."""

    folder: Path
    clocks: Clocks
    days: float
    seconds_per_day: float
    seed: int
    rounds: int
    faults: str = ""
    happens: bool = True
    """Whether anything does: a control is left alone."""
    broken: Callable[["Week"], None] = lambda week: None
    """What a control does to what is left."""
    problems: dict[str, list[str]] = field(default_factory=dict)
    interrupted: bool = False

    def __post_init__(self) -> None:
        """Make the fleet."""
        self.fleet = WeekFleet(
            folder=self.folder / "fleet", rounds=self.rounds, clocks=self.clocks, faults=self.faults
        )
        self.happenings = Happenings(self.fleet, self.seed)
        self.began = time.monotonic()
        self.watch = Watch(self.fleet, self.began, self.say)
        self.nights, self.told_rounds = 0, 0

    def say(self, sentence: str) -> None:
        """A line of progress."""
        day = (time.monotonic() - self.began) / self.seconds_per_day
        print(f"day {day:5.2f}, {self.fleet.made():3d} rounds: {sentence}", flush=True)

    def run(self) -> dict[str, Any]:
        """All of it; Ctrl-C ends it early, with the report of what was until then."""
        try:
            found, counts = self._lived()
        finally:
            self.watch.stop()
            self.fleet.close()
            self.fleet.fleet.left(seconds=1.0)
            for disk in self.fleet.disks.values():
                disk.close()
        return self._report(found, counts)

    def _lived(self) -> tuple[dict[str, list[str]], dict[str, Any]]:
        try:
            self._live()
        except KeyboardInterrupt:
            self.interrupted = True
            self.say("interrupted; what was until now is looked at")
        try:
            calm = self._calm_down() if self.happens else True
        except KeyboardInterrupt:
            self.interrupted, calm = True, False
        self.watch.stop()
        self.fleet.close()
        left = self.fleet.fleet.left()
        self.broken(self)
        found, counts = audited(self.fleet, self.watch)
        if not calm and not self.interrupted:
            found["went_wrong"].append("no round was made after all that happened")
        found["went_wrong"] += self.happenings.problems
        found["left_processes"] = left
        found["memory"] = self.watch.memory.problems()
        found["files"] = self.watch.files.problems()
        self.problems = found
        return found, counts

    def _live(self) -> None:
        for name in (*WITNESSES, "server", *GATEWAYS):
            self.fleet.start(name)
        self.watch.start()
        if not self.fleet.wait_for_rounds(1, seconds=_FIRST_ROUND_SECONDS):
            raise RuntimeError(f"no round after {_FIRST_ROUND_SECONDS:.0f} s\n{self._log()}")
        self.began = time.monotonic()
        to_come = events(self.seed, self.days) if self.happens else []
        while (day := (time.monotonic() - self.began) / self.seconds_per_day) < self.days:
            self.happenings.tick()
            if to_come and to_come[0].at <= day:
                self._happens(to_come.pop(0))
            if day >= self.nights + 1:
                self._night()
            time.sleep(_TICK_SECONDS)
        for event in to_come:
            self._happens(event)

    def _happens(self, event: Event) -> None:
        told = self.happenings.do(event.kind)
        self.say(f"{event.kind} ({told})")

    def _night(self) -> None:
        """The rest of a day passes for all clocks at once."""
        self.nights += 1
        self.clocks.pass_by(DAY - self.seconds_per_day)
        self.say(f"night {self.nights}")

    def _calm_down(self) -> bool:
        """Everything is put right; whether the fleet goes on, and its newest board reaches readers."""
        self.happenings.settle()
        self.say("calm")
        until = time.monotonic() + _CALM_SECONDS
        made, wanted = self.fleet.made(), min(self.fleet.made() + 2, self.rounds)
        while self.fleet.made() < wanted and time.monotonic() < until:
            self.happenings.tick()
            time.sleep(_TICK_SECONDS)
        goes_on = self.fleet.made() >= wanted or made >= self.rounds
        self._rest()
        until = time.monotonic() + _LAST_BOARD_SECONDS
        while self.watch.reader.newest < self.fleet.made() and time.monotonic() < until:
            time.sleep(_TICK_SECONDS)
        return goes_on

    def _rest(self) -> None:
        """No more rounds: devices leave, so that the newest board stays the newest while readers fetch it."""
        for name in self.fleet.members:
            if self.fleet.fleet.pid(name) is not None:
                self.fleet.fleet.end(name, signal.SIGTERM)
        time.sleep(2.0)

    def _log(self) -> str:
        return "\n".join(
            f"--- {path}\n{path.read_text(errors='replace')[-2000:]}"
            for path in sorted(self.folder.rglob("*.log"))
        )

    def _report(self, found: dict[str, list[str]], counts: dict[str, Any]) -> dict[str, Any]:
        growths = self.watch.memory.growths()
        return {
            LOST: len(found[LOST]),
            UNDERBOOKED: len(found[UNDERBOOKED]),
            "memory_growth_mb": max((one["grown_mb"] for one in growths), default=0.0),
            **{kind: len(told) for kind, told in found.items() if kind not in (LOST, UNDERBOOKED)},
            "days": self.days,
            "seconds_per_day": self.seconds_per_day,
            "seed": self.seed,
            "seconds": round(time.monotonic() - self.began, 1),
            "interrupted": self.interrupted,
            "clocks": self.clocks.library is not None,
            "small_disks": all(disk.is_small for disk in self.fleet.disks.values()),
            "happened": dict(self.happenings.happened.most_common()),
            **counts,
            "memory_mb": self.watch.memory.peaks(),
            "memory_lives": sorted(growths, key=lambda one: -one["grown_mb"]),
            "file_kinds": self.watch.files.told(),
            "problems": {kind: told for kind, told in found.items() if told},
        }
