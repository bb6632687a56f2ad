"""One run of ``chaos.py``: a deployment, what happens to it, and how it ends."""

import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedboard.common.errors import FedboardError
from fleets.chaos.checks import KINDS, Left, Reader, problems
from fleets.chaos.link import Link
from fleets.deployment import Deployment, FleetPlan, free_ports, make_fleet

HERE = Path(__file__).parent
NODES = ("a", "b", "c")
NOTHING = "nothing was there"
LOST_PREPARATION = "preparation round was paid for"
SERVER_STEPS = ("take an answer", "book", "draw", "publish", "log a round", "put a file", "sync a file")
CLIENT_STEPS = ("receive", "keep an answer", "book", "send", "put a file", "sync a file")
MOST_RESTARTS = 3
PATIENCE_SECONDS = 300.0
"""After the last thing that happened and the last board, before a run that does not end counts as stuck."""


@dataclass(kw_only=True)
class ChaosRun:
    """A fleet, and what befalls it."""

    folder: Path
    plan: FleetPlan
    seed: str
    events: int
    broken: str = ""
    die_at: Mapping[str, Any] = field(default_factory=dict)
    """Step at which the server ends itself in the beginning, see ``part.py``."""
    happened: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Make the fleet; nothing runs yet."""
        self.chance = random.Random(self.seed)
        (door,) = free_ports(1)
        self.settings = make_fleet(self.folder, self.plan, door=door)
        self.fleet = Deployment(self.folder, self.settings)
        self.reader = Reader(self.fleet.state.run / "boards")
        self.link = Link(
            port=door,
            upstream=self.settings.network.port,
            folder=self.folder,
            chance=random.Random(f"{self.seed} link"),
            share=0.04 if self.events else 0.0,
        )
        self._returns: dict[str, float] = {}
        """When a part that is away comes back, ``time.monotonic``."""
        self._frozen: dict[str, float] = {}

    def go(self) -> dict[str, Any]:
        """Run, disturb, and hold what is left against what must hold."""
        began, ended = time.monotonic(), threading.Event()
        watching = threading.Thread(target=self._watch, args=(ended,))
        watching.start()
        try:
            with self.link:
                how = self._disturbed()
                self._end_all()
        finally:
            self._end_all()
            ended.set()
            watching.join()
            left = self.fleet.left()
        self.reader.look()
        return self._record(how, left, time.monotonic() - began)

    def _end_all(self) -> None:
        self._thaw()
        self.fleet.look()
        self.fleet.stop()

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(0.05):
            self.reader.look()

    def _disturbed(self) -> str:
        """``finished``, ``lost preparation``, ``refused`` (a broken server that cannot go on) or ``stuck``."""
        if self.die_at:
            self._order("server", dict(self.die_at))
        for name in ("server", *NODES):
            self._start(name)
        to_come = self.events
        next_event = time.monotonic() + self.chance.uniform(0.0, 8.0)
        patience, n_boards = time.monotonic() + PATIENCE_SECONDS, 0
        while True:
            time.sleep(0.05)
            now = time.monotonic()
            how = self._end_of_server()
            if how:
                return how
            self._come_back(now)
            if to_come and now >= next_event:
                to_come -= self._something_happens()
                next_event = now + self.chance.uniform(0.3, 4.0)
                patience = now + PATIENCE_SECONDS
            if len(self.reader.seen) > n_boards:
                n_boards, patience = len(self.reader.seen), now + PATIENCE_SECONDS
            if now > patience:
                return "stuck"

    def _end_of_server(self) -> str:
        if LOST_PREPARATION in self._said():
            return "lost preparation"
        if "server" in self._returns or self.fleet.pid("server") is not None:
            return ""
        if self.fleet.status("server") == 0:
            return "finished"
        if self.broken or self.happened["server gave up"] >= MOST_RESTARTS:
            return "refused"
        self.happened["server gave up"] += 1  # after five failures in a row; its operator starts it again
        self._returns["server"] = time.monotonic() + 1.0
        return ""

    def _said(self) -> str:
        return (self.folder / "server.log").read_text()

    def _something_happens(self) -> bool:
        """False where the part that it should have happened to is away just now."""
        kinds: dict[Callable[[], str], int] = {
            self._kill_client: 3,
            self._kill_server: 2,
            self._kill_superlink: 2,
            self._kill_server_app: 2,
            self._kill_proxy: 1,
            self._kill_server_at_a_step: 4,
            self._kill_client_at_a_step: 3,
            self._freeze_client: 2,
            self._client_leaves: 2,
        }
        self.fleet.look()
        what = self.chance.choices(list(kinds), list(kinds.values()))[0]()
        self.happened[what] += what != NOTHING
        return what != NOTHING

    def _kill_client(self) -> str:
        return self._ends(self.chance.choice(NODES), signal.SIGKILL, "client killed")

    def _client_leaves(self) -> str:
        return self._ends(self.chance.choice(NODES), signal.SIGTERM, "client left and came back")

    def _kill_server(self) -> str:
        return self._ends("server", signal.SIGKILL, "server killed")

    def _ends(self, name: str, number: signal.Signals, what: str) -> str:
        self._thaw(name)
        if self.fleet.pid(name) is None:
            return NOTHING
        self.fleet.end(name, number)
        self._returns[name] = time.monotonic() + self.chance.uniform(0.2, 4.0)
        return what

    def _kill_superlink(self) -> str:
        return self._kill_part("fedboard.server.fleet.processes.superlink", "SuperLink killed")

    def _kill_server_app(self) -> str:
        return self._kill_part("flwr-serverapp", "ServerApp killed")

    def _kill_proxy(self) -> str:
        return self._kill_part("fedboard.server.fleet.processes.proxy_process", "proxy killed")

    def _kill_part(self, words: str, what: str) -> str:
        pid = self.fleet.part(words)
        if pid is None:
            return NOTHING
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return what

    def _kill_server_at_a_step(self) -> str:
        step = f"{self.chance.choice(('before', 'after'))}: {self.chance.choice(SERVER_STEPS)}"
        self._order("server", {"steps": self.chance.randrange(6), "at": step})
        return "ServerApp told to end at a step"

    def _kill_client_at_a_step(self) -> str:
        name = self.chance.choice(NODES)
        step = f"{self.chance.choice(('before', 'after'))}: {self.chance.choice(CLIENT_STEPS)}"
        self._order(f"client-{name}", {"steps": self.chance.randrange(2), "at": step})
        return "client told to end at a step"

    def _order(self, who: str, order: dict[str, Any]) -> None:
        (self.folder / f"die-{who}").write_text(json.dumps(order))

    def _freeze_client(self) -> str:
        name = self.chance.choice(NODES)
        if self.fleet.pid(name) is None:
            return NOTHING
        self.fleet.send(name, signal.SIGSTOP)
        self._frozen[name] = time.monotonic() + self.chance.uniform(1.0, 6.0)
        return "client slow"

    def _thaw(self, *names: str) -> None:
        for name in names or tuple(self._frozen):
            if self._frozen.pop(name, None) is not None and self.fleet.pid(name) is not None:
                self.fleet.send(name, signal.SIGCONT)

    def _come_back(self, now: float) -> None:
        """What is away comes back when its time has come; a client that ended itself, soon."""
        self._thaw(*[name for name, until in self._frozen.items() if now >= until] or ("",))
        for name in NODES:
            if self.fleet.pid(name) is None and name not in self._returns:
                self._returns[name] = now + self.chance.uniform(0.2, 3.0)
        for name in [name for name, at in self._returns.items() if now >= at]:
            del self._returns[name]
            self._start(name)

    def _start(self, name: str) -> None:
        who = "server" if name == "server" else f"client-{name}"
        path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
        environment = {"CHAOS_FOLDER": str(self.folder), "CHAOS_WHO": who, "PYTHONPATH": path}
        command = (sys.executable, str(HERE / "part.py"))
        self.fleet.start(name, command, CHAOS_BROKEN=self.broken, **environment)

    def left(self) -> Left:
        """What the run has left behind, read anew."""
        return Left(self.folder, self.settings, self.folder / "log.jsonl", self.reader)

    def _record(self, how: str, processes: list[str], seconds: float) -> dict[str, Any]:
        record: dict[str, Any] = {
            "ended": how,
            "noise": self.settings.privacy.noise,
            "happened": dict(self.happened),
            "link": dict(self.link.counts),
            "seconds": seconds,
            "left_processes": processes,
            **{"boards": 0, "lost_rounds": 0, "everybody_in_all_rounds": False},
        }
        try:
            left = self.left()
        except (FedboardError, OSError) as error:
            found: dict[str, list[str]] = {kind: [] for kind in KINDS}
            if how != "lost preparation" or self.reader.seen:
                found["invalid_final_boards"] = [f"what is left cannot be read: {error}"]
            return {**record, "problems": found}
        record |= {
            "died_at": dict(Counter(f"{line['who']} {line['at']}" for line in left.noted("died"))),
            "boards": len(left.boards),
            "lost_rounds": left.lost_rounds,
            "answers": len(left.noted("taken")),
            "digest": left.boards[-1].digest if left.boards else None,
            "everybody_in_all_rounds": _everybody(left),
        }
        return {**record, "problems": problems(left)}


def _everybody(left: Left) -> bool:
    """Whether every round was made of all devices' answers."""
    taken: dict[int, set[str]] = {}
    for line in left.noted("taken"):
        taken.setdefault(line["round"], set()).add(line["node"])
    rounds = range(len(left.boards) - 1)
    return left.lost_rounds == 0 and all(len(taken.get(number, ())) == len(NODES) for number in rounds)
