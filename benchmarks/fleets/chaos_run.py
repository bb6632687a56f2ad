"""One run of ``chaos.py``: a deployment, a bad network, what happens to it, and how it ends."""

import asyncio
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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedboard.common.boards.ed25519_keys import write_pair
from fedboard.common.errors import FedboardError, InputError
from fedboard.server.publishing.mirror_files import Mirror
from fleets.chaos_checks import KINDS, Left, Reader, problems
from fleets.deployment import FEDBOARD, Deployment, FleetPlan, make_fleet
from tests.ports import free_ports

HERE = Path(__file__).parent
NODES, WITNESSES = ("a", "b", "c"), ("w0", "w1", "w2")
NOTHING = "nothing was there"
LOST_PREPARATION = "preparation round was paid for"
OVER = ("the training is over", "the training is complete", "this training is closed")
SERVER_STEPS = (
    "ask",
    "take an answer",
    "book",
    "draw",
    "publish",
    "log a round",
    "put a file",
    "sync a file",
)
CLIENT_STEPS = ("receive", "keep an answer", "book", "send", "put a file", "sync a file")
MOST_RESTARTS = 3
PATIENCE_SECONDS = 300.0
"""After the last thing that happened and the last board, before a run that does not end counts as stuck."""
_FAULTS = ("cut", "lose", "delay", "hold")
_PIECE = 1 << 14


@dataclass
class Link:
    """A bad network between devices and their server: what is sent gets cut, lost with its connection, delayed, or
    held up for longer than anybody waits. TLS passes it whole: nothing can be doubled or changed without breaking
    it. ``share`` of the pieces that are passed on meet a fault.
    """

    port: int
    upstream: int
    chance: random.Random
    share: float
    counts: Counter[str] = field(default_factory=Counter)

    def __enter__(self) -> "Link":
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join(10)

    def _stop(self) -> None:
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.call_later(0.2, self._loop.stop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(lambda *_: None)  # connections that are cut are the purpose
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", self.port))
        self._loop.run_forever()
        server.close()

    async def _serve(self, device: asyncio.StreamReader, to_device: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            server, to_server = await asyncio.open_connection("127.0.0.1", self.upstream)
            pumps = [
                asyncio.ensure_future(one)
                for one in (self._pump(device, to_server), self._pump(server, to_device))
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for one in pumps:
                one.cancel()
            to_server.transport.abort()
        to_device.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                fault = self.chance.choice(_FAULTS) if self.chance.random() < self.share else ""
                self.counts[fault or "passed on"] += 1
                match fault:
                    case "cut":
                        writer.write(piece[: self.chance.randrange(len(piece))])
                        return
                    case "lose":
                        return
                    case "delay":
                        await asyncio.sleep(self.chance.uniform(0.2, 3.0))
                    case "hold":
                        await asyncio.sleep(self.chance.uniform(10.0, 40.0))
                writer.write(piece)
                await writer.drain()


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
        keys = [self._witness_key(name).hex() for name in WITNESSES]
        told = {"witnesses": keys, "cosignatures": 2}
        plan = replace(self.plan, boards=told, trusted=told)
        self.settings = make_fleet(self.folder, plan, door=door)
        self.fleet = Deployment(self.folder, self.settings)
        self.reader = Reader(self.fleet.state.run / "boards")
        self.link = Link(
            port=door,
            upstream=self.fleet.port,
            chance=random.Random(f"{self.seed} link"),
            share=0.01 if self.events else 0.0,
        )
        self._mirror = Mirror(self.fleet.state.mirror)
        self._returns: dict[str, float] = {}
        """When a part that is away comes back, ``time.monotonic``."""
        self._frozen: dict[str, float] = {}

    def _witness_key(self, name: str) -> bytes:
        place, key = self.folder / name, Ed25519PrivateKey.generate()
        place.mkdir(parents=True)
        write_pair(key, private=place / "witness.key", public=place / "witness.pub")
        return key.public_key().public_bytes_raw()

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
        for name in ("server", *WITNESSES, *NODES):
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
        said = (self.folder / "server.log").read_text()
        if LOST_PREPARATION in said:
            return "lost preparation"
        if any(one in said for one in OVER) and self._is_published():
            return "finished"
        if "server" in self._returns or self.fleet.pid("server") is not None or self._killed_itself():
            return ""
        if self.broken or self.happened["server gave up"] >= MOST_RESTARTS:
            return "refused"
        self.happened["server gave up"] += 1
        self._returns["server"] = time.monotonic() + 1.0
        return ""

    def _is_published(self) -> bool:
        """Whether witnesses have cosigned the last board, so that readers get it."""
        boards = sorted(self.reader.folder.glob("board-*.board"))
        try:
            published = self._mirror.published()
        except InputError:  # it is just being written
            return False
        return bool(published) and len(boards) == published[-1].manifest.version + 1

    def _something_happens(self) -> bool:
        """False where the part that it should have happened to is away just now."""
        device, witness = self.chance.choice(NODES), self.chance.choice(WITNESSES)
        kinds: dict[Callable[[], str], int] = {
            lambda: self._ends(device, signal.SIGKILL, "client killed"): 3,
            lambda: self._ends(device, signal.SIGTERM, "client left and came back"): 2,
            lambda: self._ends("server", signal.SIGKILL, "server killed"): 4,
            lambda: self._ends("server", signal.SIGTERM, "server stopped and started"): 1,
            lambda: self._ends(witness, signal.SIGKILL, "witness killed"): 2,
            self._kill_server_at_a_step: 5,
            lambda: self._kill_client_at_a_step(device): 3,
            lambda: self._freeze(device, "client slow"): 2,
            lambda: self._freeze("server", "server slow"): 1,
        }
        self.fleet.look()
        what = self.chance.choices(list(kinds), list(kinds.values()))[0]()
        self.happened[what] += what != NOTHING
        return what != NOTHING

    def _ends(self, name: str, number: signal.Signals, what: str) -> str:
        self._thaw(name)
        if self.fleet.pid(name) is None:
            return NOTHING
        self.fleet.end(name, number)
        self._returns[name] = time.monotonic() + self.chance.uniform(0.2, 4.0)
        return what

    def _kill_server_at_a_step(self) -> str:
        step = f"{self.chance.choice(('before', 'after'))}: {self.chance.choice(SERVER_STEPS)}"
        self._order("server", {"steps": self.chance.randrange(6), "at": step})
        return "server told to end at a step"

    def _kill_client_at_a_step(self, name: str) -> str:
        step = f"{self.chance.choice(('before', 'after'))}: {self.chance.choice(CLIENT_STEPS)}"
        self._order(f"client-{name}", {"steps": self.chance.randrange(2), "at": step})
        return "client told to end at a step"

    def _order(self, who: str, order: dict[str, Any]) -> None:
        (self.folder / f"die-{who}").write_text(json.dumps(order))

    def _freeze(self, name: str, what: str) -> str:
        if self.fleet.pid(name) is None:
            return NOTHING
        self.fleet.send(name, signal.SIGSTOP)
        self._frozen[name] = time.monotonic() + self.chance.uniform(1.0, 6.0)
        return what

    def _thaw(self, *names: str) -> None:
        for name in names or tuple(self._frozen):
            if self._frozen.pop(name, None) is not None and self.fleet.pid(name) is not None:
                self.fleet.send(name, signal.SIGCONT)

    def _come_back(self, now: float) -> None:
        """What is away comes back when its time has come; what ended itself, soon."""
        self._thaw(*[name for name, until in self._frozen.items() if now >= until] or ("",))
        for name in (*NODES, *WITNESSES, *(("server",) if self._killed_itself() else ())):
            if self.fleet.pid(name) is None and name not in self._returns:
                self._returns[name] = now + self.chance.uniform(0.2, 3.0)
        for name in [name for name, at in self._returns.items() if now >= at]:
            del self._returns[name]
            self._start(name)

    def _killed_itself(self) -> bool:
        with contextlib.suppress(KeyError):
            return self.fleet.status("server") == -signal.SIGKILL
        return False

    def _start(self, name: str) -> None:
        if name in WITNESSES:
            place = self.folder / name
            words = ["witness", "--server", self.settings.network.address, "--begin", self.settings.name]
            words += ["--authority", str(self.folder / "keys" / "authority.pem")]
            words += ["--key", str(place / "witness.key"), "--memory", str(place / "witness.memory")]
            self.fleet.start_command(name, [*FEDBOARD, *words])
            return
        who = "server" if name == "server" else f"client-{name}"
        path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        environment = {"FLEET_LOG": str(self.folder), "FLEET_WHO": who, "PYTHONPATH": path}
        command = (sys.executable, str(HERE / "part.py"))
        self.fleet.start(name, command, stays=True, FLEET_BROKEN=self.broken, **environment)

    def left(self) -> Left:
        """What the run has left behind, read anew."""
        return Left(self.folder, self.settings, self.folder / "log.jsonl", self.reader)

    def _record(self, how: str, processes: list[str], seconds: float) -> dict[str, Any]:
        record: dict[str, Any] = {
            "ended": how,
            "noise": "seeded" if self.settings.simulated else "secure",
            "happened": dict(self.happened),
            "link": dict(self.link.counts),
            "seconds": seconds,
            "left_processes": processes,
            **{"boards": 0, "lost_rounds": 0, "lost_unbooked": 0, "everybody_in_all_rounds": False},
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
            "lost_unbooked": left.lost_unbooked,
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
