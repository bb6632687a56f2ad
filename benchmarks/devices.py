"""Thousands of enrolled devices in rounds of one server, over gRPC and TLS: time, CPU, memory, polls, boards.

    python benchmarks/devices.py [--devices 10000] [--users 7] [--rounds 1] [--deadline 1800]
                                 [--stalling 1] [--flooding 1] [--replaying 1] [--idle 200] [--json FILE]

Every device joins with an invitation of its own, has its own key, ratings, policy and ledger, opens its own TLS
connections, fetches its questions, rebuilds the task, answers, seals and hands in: all with the product's own code.
Only the processes are shared: ``--swarms`` of them, which give each device its turn. What the server spends is
counted apart from what the devices spend; both are on this machine. The people are made up.

Beside them come members that stall, flood or replay, and connections that are idle (``fleets/attackers.py``); a
reader's calls are timed meanwhile. ``loop_delay`` says how late the server's event loop was, over all of the
training and ``closing``: while a round is closed, from its last answer to its board.

``round_seconds`` is the longest round that did not wait for devices to arrive for the first time.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import msgspec
from fleets.attackers import AttackPlan
from fleets.deployment import Deployment, FleetPlan, invite, make_fleet, wait_for
from fleets.swarm import SwarmPlan, join_all, people, percentiles
from process_tree import cpu_seconds, own_memory

from fedboard.common.board import Catalogue
from fedboard.server.fleet.settings import FleetSettings, read_settings
from fedboard.server.fleet.state_folder import KeysFolder

FLEETS = Path(__file__).parent / "fleets"
KINDS = ("stalling", "flooding", "replaying")
EPSILON, DELTA = 5.0, 1e-6
_KEPT = ("round", "seconds", "answers", "refused", "bytes_up", "bytes_down", "lost", "attempts")


class Programs:
    """The processes of the devices, and of the attackers."""

    def __init__(self, script: str, plans: list[SwarmPlan] | list[AttackPlan], folder: Path) -> None:
        """Start them."""
        self.plans, self._processes = plans, []
        for number, plan in enumerate(plans):
            file = folder / f"{script}{number}.json"
            file.write_bytes(msgspec.json.encode(plan))
            with file.with_suffix(".log").open("ab") as log:
                command = [sys.executable, str(FLEETS / f"{script}.py"), str(file)]
                self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def ready(self) -> bool:
        """Whether all have joined."""
        for process in self._processes:
            if process.poll() is not None:
                raise SystemExit(f"a process of the devices ended with {process.poll()}; see its log")
        return all(Path(plan.told + ".ready").exists() for plan in self.plans)

    def end(self) -> list[dict[str, Any]]:
        """End them; what each has measured."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            process.wait(120)
        return [json.loads(Path(plan.told).read_text()) for plan in self.plans if Path(plan.told).exists()]


class ServerWatch:
    """Looks at the server's process twice a second: CPU seconds, and the most memory so far."""

    def __init__(self, pid: int) -> None:
        """Begin."""
        self._pid, self.peak_memory, self._ended = pid, 0.0, threading.Event()
        self._used = 0.0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def cpu(self) -> float:
        """CPU seconds so far; of a process that has ended, those of the last look."""
        self._used = max(self._used, cpu_seconds(self._pid))
        return self._used

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.5):
            self.cpu()
            self.peak_memory = max(self.peak_memory, own_memory(self._pid))


def swarm_plans(
    given: argparse.Namespace, folder: Path, invitations: dict[str, list[str]]
) -> list[SwarmPlan]:
    """Devices by process."""
    ends = [given.devices * number // given.swarms for number in range(given.swarms + 1)]
    return [
        SwarmPlan(
            folder=str(folder),
            first=first,
            devices=last - first,
            users=given.users,
            all_devices=given.devices + attackers_of(given),
            threads=given.threads,
            spread=given.devices / 100.0,
            invitations={name: one for name, one in invitations.items() if first <= int(name[1:]) < last},
            told=str(folder / f"told{first}.json"),
        )
        for first, last in pairwise(ends)
    ]


def attackers_of(given: argparse.Namespace) -> int:
    """Members that mean ill; they are numbered behind the others."""
    return sum(getattr(given, kind) for kind in KINDS)


def attack_plan(given: argparse.Namespace, folder: Path, invitations: dict[str, list[str]]) -> AttackPlan:
    """Let the attackers join, and say what each does."""
    settings, first, members = read_settings(folder / "fleet.toml"), given.devices, dict[str, list[str]]()
    join_all(
        SwarmPlan(
            folder=str(folder),
            first=first,
            devices=attackers_of(given),
            users=given.users,
            all_devices=first + attackers_of(given),
            threads=1,
            spread=0.0,
            invitations=invitations,
            told="",
        )
    )
    for kind in KINDS:
        many = getattr(given, kind)
        members[kind] = [str(folder / f"d{number}") for number in range(first, first + many)]
        first += many
    return AttackPlan(
        address=settings.network.address,
        authority=str(KeysFolder.of(settings).authority),
        idle=given.idle,
        told=str(folder / "told-attackers.json"),
        **members,
    )


def fleet_of(given: argparse.Namespace, folder: Path) -> FleetSettings:
    """A fleet in the folder, whose devices will join."""
    members = given.devices + attackers_of(given)
    _, item_ids = people(1)
    plan = FleetPlan(
        nodes={},
        catalogue=Catalogue(item_ids=item_ids),
        task={"algorithm": "residual", "settings": {"rounds": given.rounds}},
        privacy={"epsilon": EPSILON, "delta": DELTA},
        rounds={
            "devices": given.devices,
            "quorum": max(1, int(given.quorum * given.devices)),
            "deadline_seconds": given.deadline,
        },
        members={"most": members, "users": members * given.users},
    )
    return make_fleet(folder, plan)


def rounds_of(fleet: Deployment, watch: ServerWatch, seconds: float) -> list[dict[str, Any]]:
    """Wait for the end of the training; each round with what the server spent on it."""
    found, before, began = list[dict[str, Any]](), watch.cpu(), time.monotonic()
    while time.monotonic() - began < seconds:
        ended, lines = fleet.status("server") is not None, fleet.log.lines()
        for line in lines[len(found) :]:
            now = watch.cpu()
            found.append({key: line[key] for key in _KEPT if key in line})
            found[-1]["server_cpu_seconds"] = round(now - before, 2)
            before = now
            print(json.dumps(found[-1]), flush=True)
        if ended:
            break
        time.sleep(0.2)
    return found


def loop_delays(folder: Path) -> dict[str, Any]:
    """How late the event loop was, in all and while rounds were closed."""
    lines = [json.loads(line) for line in (folder / "delays.jsonl").read_text().splitlines()]
    late = [(at, delay) for line in lines for at, delay in line.get("late", ())]
    closed, closing = 0.0, list[tuple[float, float]]()
    for line in lines:
        if line.get("step") == "after: asking":
            closed = line["at"]
        elif line.get("step") == "after: logged":
            closing.append((closed, line["at"]))
    while_closing = [delay for at, delay in late if any(first <= at <= last + 0.1 for first, last in closing)]
    seconds = [last - first for first, last in closing]
    return {
        "all": percentiles([delay for _, delay in late]),
        "closing": percentiles(while_closing),
        "closing_seconds": seconds,
    }


def trial(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All of it; what came of it."""
    settings, programs = fleet_of(given, folder), list[Programs]()
    fleet = Deployment(folder, settings)
    try:
        part = (sys.executable, str(FLEETS / "part.py"))
        fleet.start("server", part, FLEET_LOG=str(folder))
        heard = "devices and readers come to"
        wait_for(lambda: heard in (folder / "server.log").read_text(), "port", folder, seconds=240)
        pid = fleet.pid("server")
        assert pid is not None
        watch = ServerWatch(pid)
        began, idle = time.monotonic(), watch.cpu()
        names = [f"d{number}" for number in range(given.devices + attackers_of(given))]
        made = invite(settings, dict.fromkeys(names, given.users))
        invitations = {name: [one.url, one.token] for name, one in made.items()}
        own = {name: one for name, one in invitations.items() if int(name[1:]) < given.devices}
        swarms = Programs("swarm", swarm_plans(given, folder, own), folder)
        programs.append(swarms)
        others = {name: one for name, one in invitations.items() if name not in own}
        attack = attack_plan(given, folder, others)
        wait_for(swarms.ready, "devices", folder, seconds=given.limit)
        joining = {"seconds": time.monotonic() - began, "server_cpu_seconds": round(watch.cpu() - idle, 2)}
        print(json.dumps({"joined": given.devices, **joining}), flush=True)
        attackers = Programs("attackers", [attack], folder)
        programs.append(attackers)
        (folder / "go").touch()
        rounds = rounds_of(fleet, watch, given.limit)
        told, attacked = swarms.end(), attackers.end()
        watch.end()
        found = summary(given, rounds, told, watch)
        return {**found, "joining": joining, "loop_delay": loop_delays(folder), "attackers": attacked}
    finally:
        for program in programs:
            program.end()
        fleet.look()
        fleet.stop()
        fleet.left(seconds=5.0)


def summary(
    given: argparse.Namespace, rounds: list[dict[str, Any]], told: list[dict[str, Any]], watch: ServerWatch
) -> dict[str, Any]:
    """The table's numbers."""
    counted = rounds[1:] or rounds
    answers = sum(line["answers"] for line in counted)
    of_server = sum(line["server_cpu_seconds"] for line in counted)
    boards = {
        "bytes": sum(one["boards"]["bytes"] for one in told),
        "at_once": sum(one["boards"]["at_once"] for one in told),
    }
    return {
        "devices": given.devices,
        "users": given.devices * given.users,
        "transport": "grpc",
        **{kind: getattr(given, kind) for kind in (*KINDS, "idle")},
        "rounds_made": sum(not line.get("lost") for line in rounds),
        "rounds_lost": sum(bool(line.get("lost")) for line in rounds),
        "answers": [line["answers"] for line in rounds],
        "round_seconds": max((line["seconds"] for line in counted), default=None),
        "server_cpu_seconds_per_device": of_server / answers if answers else None,
        "device_cpu_seconds_per_answer": sum(one["cpu"] for one in told)
        / max(1, sum(line["answers"] for line in rounds)),
        "peak_memory_gb": watch.peak_memory,
        "memory_kb_per_device": watch.peak_memory * 2**20 / given.devices,
        "polls": merged(told, "polls"),
        "boards": {**merged(told, "boards"), **boards},
        "handing_in": merged(told, "answers"),
        "rounds": rounds,
        "swarms": told,
    }


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


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=7, help="of each device; 1: a person's own store")
    parser.add_argument("--rounds", type=int, default=1, help="alternations; two rounds come before them")
    parser.add_argument("--deadline", type=float, default=1800.0, help="seconds of a round, at least")
    parser.add_argument("--quorum", type=float, default=0.95, help="share of the devices")
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, help="members that do so")
    parser.add_argument("--idle", type=int, default=0, help="connections that do nothing")
    parser.add_argument("--swarms", type=int, default=2, help="processes of the devices")
    parser.add_argument("--threads", type=int, default=8, help="of each of them")
    parser.add_argument(
        "--limit", type=float, default=7200.0, help="seconds for joining, and for the training"
    )
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    """Run, print, and fail where not every device was in every round."""
    given = arguments()
    with tempfile.TemporaryDirectory() as folder:
        found = trial(given, Path(folder).absolute())
    text = json.dumps(found, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text)
    whole = found["rounds_made"] == given.rounds + 2 and min(found["answers"]) >= given.quorum * given.devices
    sys.exit(0 if whole else 1)


if __name__ == "__main__":
    main()
