"""Many devices in one process: each joins, fetches its questions, answers and hands in what it answered by itself.

    python benchmarks/fleets/swarm.py PLAN

PLAN is a JSON file, see ``SwarmPlan``. Everything that a device does is the product's own code, over its own TLS
connections, with its own key, ratings, policy and ledger; only the waiting between two turns is shared by threads.
"""

import heapq
import json
import random
import resource
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec
import numpy as np
from process_tree import own_peak_mib

from fedboard.client.participation import node
from fedboard.client.participation.config import load_device
from fedboard.client.participation.connection import CallError, Received, ServerConnection
from fedboard.client.participation.opening import open_device
from fedboard.common.cohort import Cohort
from fedboard.server.fleet.settings import read_settings
from fedboard.simulations.data import SyntheticConfig, synthetic_ratings
from fleets.deployment import joined, write_device

ITEMS, RATINGS_EACH = 3449, 96.8
"""Of ml-1m-x12: items, and training ratings of a user."""


class SwarmPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What one process does."""

    folder: str
    first: int
    """Number of its first device."""
    devices: int
    users: int
    """Of each."""
    all_devices: int
    threads: int
    spread: float
    """Seconds over which devices come for the first time."""
    invitations: dict[str, list[str]]
    """Device to URL and token."""
    told: str
    """File for what was measured."""


@dataclass(slots=True)
class Seen:
    """What the devices of this process saw; seconds."""

    polls: list[float] = field(default_factory=list)
    boards: list[float] = field(default_factory=list)
    board_bytes: int = 0
    boards_at_once: int = 0
    answers: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    fetching: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


_seen = Seen()


class MeasuredConnection(ServerConnection):
    """The product's, with a watch."""

    def receive(self) -> Received | None:
        """Timed; a response with work is a board download."""
        with _seen.lock:
            _seen.fetching += 1
            at_once = _seen.fetching
        began = time.monotonic()
        try:
            received = super().receive()
        except CallError as error:
            _seen.failures[f"receive {error.trouble.name}"] += 1
            raise
        finally:
            with _seen.lock:
                _seen.fetching -= 1
        took = time.monotonic() - began
        if received is None or received.frame is None:
            _seen.polls.append(took)
            return received
        _seen.boards.append(took)
        with _seen.lock:
            _seen.board_bytes += len(received.frame) + len(received.board or b"")
            _seen.boards_at_once = max(_seen.boards_at_once, at_once)
        return received

    def send(self, work: str, reply: bytes) -> None:
        """Timed."""
        began = time.monotonic()
        try:
            super().send(work, reply)
        except CallError as error:
            _seen.failures[f"send {error.trouble.name}"] += 1
            raise
        _seen.answers.append(time.monotonic() - began)


def people(n_users: int) -> tuple[Cohort, tuple[str, ...]]:
    """So many made-up users of the shape of ml-1m-x12, and the ids of the items."""
    made = SyntheticConfig(n_users=n_users, n_items=ITEMS, mean_ratings_per_user=RATINGS_EACH)
    return synthetic_ratings(made).cohort(), tuple(str(number) for number in range(ITEMS))


def join_all(plan: SwarmPlan) -> list[float]:
    """Let all join that have an invitation; seconds of each."""
    settings = read_settings(Path(plan.folder, "fleet.toml"))
    everybody, item_ids = people(plan.all_devices * plan.users)
    took = []
    for number in range(plan.first, plan.first + plan.devices):
        name, ratings = f"d{number}", everybody.rows(number * plan.users, (number + 1) * plan.users)
        write_device(Path(plan.folder) / name, ratings, item_ids, settings)
        took.append(joined(*plan.invitations[name], Path(plan.folder) / name))
    return took


def devices(plan: SwarmPlan) -> list[node.Node]:
    """All of them, ready."""
    return [
        device_of(Path(plan.folder) / f"d{number}" / "device.toml")
        for number in range(plan.first, plan.first + plan.devices)
    ]


def device_of(config: Path) -> node.Node:
    """A device as ``fedboard client`` makes it."""
    device = load_device(config)
    server = device.server
    assert server is not None
    return node.Node(server, lambda: open_device(config), idle=device.answers().expire)


def told_of(nodes: list[node.Node]) -> dict[str, Any]:
    """What devices counted."""
    tallies = [one.tally for one in nodes]
    return {
        "answered": sum(tally.answered for tally in tallies),
        "given": sum(tally.given for tally in tallies),
        "refused": sum(tally.refused for tally in tallies),
        "undelivered": sum(tally.undelivered for tally in tallies),
        "bytes": [sum(t.sent for t in tallies), sum(t.received for t in tallies)],
        "codes": sorted({str(code) for tally in tallies for code in tally.codes}),
    }


def run(nodes: list[node.Node], stop: threading.Event, *, threads: int, spread: float) -> None:
    """Give each its turn when it is due, until told to stop."""
    due = [(time.monotonic() + random.uniform(0, spread), number) for number in range(len(nodes))]
    heapq.heapify(due)
    changed = threading.Condition()

    def work() -> None:
        while not stop.is_set():
            with changed:
                while not stop.is_set() and (not due or due[0][0] > time.monotonic()):
                    changed.wait(min(0.5, max(0.001, due[0][0] - time.monotonic())) if due else 0.5)
                if stop.is_set():
                    return
                _, number = heapq.heappop(due)
            pause = nodes[number].turn()
            with changed:
                heapq.heappush(due, (time.monotonic() + pause, number))

    workers = [threading.Thread(target=work, daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Number, mean, median, 99th percentile and largest."""
    if not seconds:
        return {"number": 0}
    half, most = np.percentile(seconds, [50, 99])
    mean, largest = float(np.mean(seconds)), max(seconds)
    return {
        "number": len(seconds),
        "mean": mean,
        "median": float(half),
        "p99": float(most),
        "largest": largest,
    }


def main() -> None:
    """Join, then take part until SIGTERM; then tell what was measured."""
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=SwarmPlan)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    joins = join_all(plan)
    cpu_of_joining = _cpu()
    with mock.patch.object(node, "ServerConnection", MeasuredConnection):
        nodes = devices(plan)
    ready = _cpu()
    Path(plan.told + ".ready").write_text(json.dumps({"joins": percentiles(joins), "cpu": cpu_of_joining}))
    while not Path(plan.folder, "go").exists() and not stop.is_set():
        time.sleep(0.1)
    run(nodes, stop, threads=plan.threads, spread=plan.spread)
    told = {
        "polls": percentiles(_seen.polls),
        "boards": {**percentiles(_seen.boards), "bytes": _seen.board_bytes, "at_once": _seen.boards_at_once},
        "answers": percentiles(_seen.answers),
        "failures": dict(_seen.failures),
        "cpu_of_joining": cpu_of_joining,
        "cpu": _cpu() - ready,
        "peak_memory_gb": own_peak_mib() / 1024,
        **told_of(nodes),
    }
    Path(plan.told).write_text(json.dumps(told))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
