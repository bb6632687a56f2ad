"""What befalls a fleet in a week, each by its name in ``plan.KINDS``; what was done is undone seconds later."""

import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fleets.soak.earlier import as_before
from fleets.soak.fleet import WITNESSES, WeekFleet, put
from fleets.soak.people import GATEWAYS, MOST_EVER, MOST_JOINED

NOTHING = "nothing was there"
SERVER_STEPS = ("take an answer", "book", "draw", "publish", "log a round", "put a file", "sync a file")
DEVICE_STEPS = ("receive", "keep an answer", "book", "send", "put a file", "sync a file")
_FULL_SECONDS, _CLOCK_SECONDS, _OLDER_SECONDS = 8.0, 7.0, 40.0
_SPARED = GATEWAYS[0]
"""A device that nothing ends, so that its memory is seen over the whole week."""


class Happenings:
    """Does what a plan says, and keeps the fleet running meanwhile."""

    def __init__(self, fleet: WeekFleet, seed: int) -> None:
        """Nothing has happened."""
        self.fleet, self.chance = fleet, random.Random(f"happenings {seed}")
        self.happened: Counter[str] = Counter()
        self.problems: list[str] = []
        self._undo: list[tuple[float, Callable[[], object]]] = []
        self._frozen: set[str] = set()
        self._away: set[str] = set()
        self._keys = 0

    def do(self, kind: str) -> str:
        """Let it happen; in words, what did."""
        try:
            told = str(getattr(self, kind.lower().replace(" ", "_").replace("'", "_"))())
        except RuntimeError as error:
            self.problems.append(f"{kind}: {error}")
            told = "it failed"
        self.happened[kind if told != NOTHING else f"{kind}: {NOTHING}"] += 1
        return told

    def tick(self) -> None:
        """Undo what is due, and start again what has ended by itself."""
        now = time.monotonic()
        due = [one for one in self._undo if one[0] <= now]
        self._undo = [one for one in self._undo if one[0] > now]
        for _, undo in due:
            undo()
        for name in ("server", *self.fleet.members, *WITNESSES):
            if name not in self._away and self.fleet.fleet.pid(name) is None:
                self.happened[f"{_what(name)} ended itself and was started again"] += 1
                self._start(name)

    def settle(self) -> None:
        """Undo all of it now."""
        self._undo = [(0.0, undo) for _, undo in self._undo]
        self.tick()

    def _later(self, seconds: float, undo: Callable[[], object]) -> None:
        self._undo.append((time.monotonic() + seconds, undo))

    def _start(self, name: str, **more: str) -> None:
        self._away.discard(name)
        self.fleet.start(name, **more)

    def _ends(self, name: str, number: signal.Signals, *, back: float | None = None) -> str:
        """End it; it comes back after a while."""
        if self.fleet.fleet.pid(name) is None:
            return NOTHING
        self._thaw(name)
        self._away.add(name)
        status = self.fleet.fleet.end(name, number)
        if number == signal.SIGTERM and name == "server" and status != 0:
            self.problems.append(f"a server that was stopped ended with status {status}")
        self._later(self.chance.uniform(0.5, 4.0) if back is None else back, lambda: self._start(name))
        return f"{name}, status {status}"

    def _somebody(self, among: tuple[str, ...]) -> str:
        there = [name for name in among if name not in self._away and name != _SPARED]
        return self.chance.choice(there or [GATEWAYS[1]])

    def _kill_part(self, words: str) -> str:
        pid = self.fleet.fleet.part(words)
        if pid is None:
            return NOTHING
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return f"process {pid}"

    # who comes and goes

    def a_device_joins(self) -> str:
        if len(self.fleet.joined) >= MOST_EVER:
            return NOTHING
        if len(self.fleet.members) >= len(GATEWAYS) + MOST_JOINED:
            self.a_device_is_removed()
        return self.fleet.join()

    def a_device_is_removed(self) -> str:
        there = [name for name in self.fleet.members if name not in GATEWAYS]
        if not there:
            return NOTHING
        name = self.chance.choice(there)
        self.fleet.removed.append(name)
        self.fleet.fedboard("fleet", "remove", name, "--config", self.fleet.config)
        self._away.add(name)
        self._later(6.0, lambda: self._gone(name))
        return name

    def _gone(self, name: str) -> None:
        self._thaw(name)
        if self.fleet.fleet.pid(name) is not None:
            self.fleet.fleet.end(name, signal.SIGTERM)

    def a_device_is_killed(self) -> str:
        return self._ends(self._somebody(self.fleet.members), signal.SIGKILL)

    def a_device_is_killed_at_a_step(self) -> str:
        name = self._somebody(self.fleet.members)
        step = f"{self.chance.choice(('before', 'after'))}: {self.chance.choice(DEVICE_STEPS)}"
        self.fleet.order(f"client-{name}", step, self.chance.randrange(2))
        return f"{name} {step}"

    def a_device_is_slow(self) -> str:
        name = self._somebody(self.fleet.members)
        if self.fleet.fleet.pid(name) is None:
            return NOTHING
        self.fleet.fleet.send(name, signal.SIGSTOP)
        self._frozen.add(name)
        self._later(self.chance.uniform(3.0, 12.0), lambda: self._thaw(name))
        return name

    def _thaw(self, name: str) -> None:
        if name in self._frozen and self.fleet.fleet.pid(name) is not None:
            self.fleet.fleet.send(name, signal.SIGCONT)
        self._frozen.discard(name)

    def a_device_is_of_the_version_before(self) -> str:
        """Its answers are refused with a code, the others make the round."""
        name = GATEWAYS[1]
        self._ends(name, signal.SIGTERM, back=1e9)
        self._undo.pop()
        first = self.fleet.made()
        self._start(name, SOAK_OLDER="1")
        until, refused = time.monotonic() + _OLDER_SECONDS, list[dict[str, Any]]()
        while not refused and time.monotonic() < until:
            self.tick()
            refused = [
                line for line in self.fleet.lines()[first:] if line.get("refused", {}).get("wrong-version")
            ]
            time.sleep(0.2)
        if not refused and self.fleet.made() - first > 2:
            self.problems.append("a device of the version before was asked in no round")
        if any(line["lost"] and set(line["refused"]) == {"wrong-version"} for line in refused):
            self.problems.append("a round was lost for a device of the version before")
        told = (self.fleet.folder / f"{name}.log").read_text()
        if refused and "refused: wrong-version" not in told:
            self.problems.append(f"{name} does not say why it refuses")
        self._ends(name, signal.SIGTERM, back=0.0)
        return f"{name}, refused in {[line['round'] for line in refused]}"

    # ends of the server and of its parts

    def the_server_is_killed(self) -> str:
        return self._ends("server", signal.SIGKILL)

    def the_server_is_stopped_and_started(self) -> str:
        return self._ends("server", signal.SIGTERM)

    def the_server_is_upgraded(self) -> str:
        """What the version before left: its job is in the earlier format, and Flower's database is not there."""
        told = self._ends("server", signal.SIGTERM, back=1e9)
        self._undo.pop()
        state = self.fleet.fleet.state
        earlier = as_before(json.loads(state.job.read_text()))
        state.job.write_text(json.dumps(earlier))
        for path in state.path.glob("superlink.db*"):
            path.unlink()
        self._start("server")
        return told

    def the_superlink_is_killed(self) -> str:
        return self._kill_part("processes.superlink")

    def the_serverapp_is_killed_at_a_step(self) -> str:
        step = f"{self.chance.choice(('before', 'after'))}: {self.chance.choice(SERVER_STEPS)}"
        self.fleet.order("server", step, self.chance.randrange(6))
        return step

    def the_proxy_is_killed(self) -> str:
        return self._kill_part("proxy_process")

    def the_board_service_is_killed(self) -> str:
        return self._kill_part("board_process")

    def a_witness_is_killed(self) -> str:
        return self._ends(self.chance.choice(WITNESSES), signal.SIGKILL)

    # keys

    def the_board_key_is_rotated(self) -> str:
        keys = self._new_keys("board")
        self.fleet.rotated("--board-key", keys / "board-signing.pub")
        put(keys / "board-signing.key", self.fleet.folder / "board-signing.key")
        return keys.name

    def the_question_key_is_rotated(self) -> str:
        """Needs a new start of the server."""
        keys = self._new_keys("questions")
        self.fleet.rotated("--question-key", keys / "question-signing.pub")
        told = self._ends("server", signal.SIGTERM, back=0.0)
        put(keys / "question-signing.key", self.fleet.folder / "question-signing.key")
        return told

    def the_root_is_renewed(self) -> str:
        self.fleet.rotated()
        return "the same keys"

    def _new_keys(self, kind: str) -> Path:
        self._keys += 1
        folder = self.fleet.folder / f"keys-{self._keys}"
        self.fleet.fedboard("keys", kind, "--out", folder)
        return folder

    # full disks

    def the_server_s_disk_is_full(self) -> str:
        return self._full("server")

    def the_log_s_disk_is_full(self) -> str:
        return self._full("log")

    def a_device_s_disk_is_full(self) -> str:
        return self._full(self._somebody(self.fleet.members))

    def a_witness_s_disk_is_full(self) -> str:
        return self._full(self.chance.choice(WITNESSES))

    def _full(self, name: str) -> str:
        disk = self.fleet.disks[name]
        if not disk.is_small:
            return NOTHING
        disk.fill()
        self._later(_FULL_SECONDS, disk.free)
        return name

    # clocks

    def the_server_s_clock_jumps_ahead(self) -> str:
        return self._jump("server", 3 * 86_400.0)

    def the_server_s_clock_jumps_back(self) -> str:
        return self._jump("server", -6 * 3_600.0)

    def a_device_s_clock_jumps(self) -> str:
        return self._jump(self._somebody(self.fleet.members), self.chance.choice((-1, 1)) * 7_200.0)

    def the_witnesses__clock_jumps(self) -> str:
        return self._jump("witnesses", self.chance.choice((-1, 1)) * 7_200.0)

    def _jump(self, machine: str, ahead: float) -> str:
        if self.fleet.clocks.library is None:
            return NOTHING
        self.fleet.clocks.set(machine, ahead)
        self._later(_CLOCK_SECONDS, lambda: self.fleet.clocks.set(machine, 0.0))
        return f"{machine} by {ahead / 3600:+.0f} h"

    def a_backup_is_made(self) -> str:
        place = self.fleet.folder / "backups"
        place.mkdir()
        self.fleet.fedboard("fleet", "backup", "--config", self.fleet.config, "--to", place)
        found = sorted(place.iterdir())
        told = f"{sum(path.stat().st_size for path in found)} bytes"
        shutil.rmtree(place)
        return told


def _what(name: str) -> str:
    return "the server" if name == "server" else "a witness" if name in WITNESSES else "a device"
