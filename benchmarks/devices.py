"""Thousands of enrolled devices in rounds of one server, over TLS: time, CPU, memory, polls, boards.

    python benchmarks/devices.py [--devices 10000] [--users 7] [--rounds 1] [--data FILE.npz]
                                 [--carrier direct|flower] [--keep FOLDER] [--json FILE]

Every device joins with an invitation of its own, has its own key, ratings, policy and ledger, opens its own TLS
connections, fetches its questions, rebuilds the task, answers, seals and hands in: all with the product's own code.
Only the processes are shared: ``--swarms`` of them, which give each device its turn. What the server's processes
spend is counted apart from what the devices spend; both are on this machine. Without ``--data`` the people are made
up, in the shape of ml-1m-x12 (``make_x12.py``); with it they are the file's first users.

``--keep`` names a folder in which the fleet stays; a second run with it does without joining, in a new training.
``round_seconds`` is the longest round that did not wait for devices to arrive for the first time.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import msgspec
from fleets.deployment import Deployment, wait_for
from fleets.devices.fleet import Size, invite, make_fleet
from fleets.devices.measuring import ServerWatch, merged, spent
from fleets.devices.people import people
from fleets.devices.swarm import SwarmPlan

from fedboard.server.fleet.plan.settings import FleetSettings, read_settings

SWARM = Path(__file__).parent / "fleets" / "devices" / "swarm.py"


class Swarms:
    """The processes of the devices."""

    def __init__(self, plans: list[SwarmPlan]) -> None:
        """Start them; they join, if they have invitations, and wait."""
        self.plans = plans
        self._processes = []
        for number, plan in enumerate(plans):
            file = Path(plan.folder) / f"swarm{number}.json"
            file.write_bytes(msgspec.json.encode(plan))
            with (Path(plan.folder) / f"swarm{number}.log").open("ab") as log:
                command = [sys.executable, str(SWARM), str(file)]
                self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def ready(self) -> bool:
        """Whether all have joined."""
        for process in self._processes:
            if process.poll() is not None:
                raise SystemExit(f"a process of the devices ended with {process.poll()}; see swarm*.log")
        return all(Path(plan.told + ".ready").exists() for plan in self.plans)

    def end(self) -> list[dict[str, Any]]:
        """End them; what each has measured."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            process.wait(120)
        return [json.loads(Path(plan.told).read_text()) for plan in self.plans if Path(plan.told).exists()]


def plans_of(given: argparse.Namespace, folder: Path, invitations: dict[str, list[str]]) -> list[SwarmPlan]:
    """Devices by process."""
    ends = [given.devices * number // given.swarms for number in range(given.swarms + 1)]
    return [
        SwarmPlan(
            folder=str(folder),
            first=first,
            devices=last - first,
            users=given.users,
            all_devices=given.devices,
            data=None if given.data is None else str(given.data.absolute()),
            carrier=given.carrier,
            threads=1 if given.carrier == "flower" else given.threads,
            spread=given.devices / given.polls,
            invitations={f"d{number}": invitations[f"d{number}"] for number in range(first, last)}
            if invitations
            else {},
            told=str(folder / f"told{first}.json"),
        )
        for first, last in pairwise(ends)
    ]


def fleet_of(given: argparse.Namespace, folder: Path) -> tuple[FleetSettings, bool]:
    """The fleet of the folder, and whether its devices have joined."""
    known = (folder / "fleet.toml").exists()
    if not known:
        size = Size(
            devices=given.devices,
            users=given.users,
            rounds=given.rounds,
            carrier=given.carrier,
            polls_per_second=given.polls,
            quorum=given.quorum,
        )
        _, item_ids = people(given.data, 1)
        (folder / "size.json").write_text(json.dumps(asdict(size)))
        return make_fleet(folder, size, item_ids), False
    for place in (*folder.glob("told*"), *folder.glob("swarm*.json"), folder / "go"):
        place.unlink(missing_ok=True)
    for device in folder.glob("d[0-9]*"):
        shutil.rmtree(device / "state", ignore_errors=True)
    shutil.rmtree(folder / "state" / "runs", ignore_errors=True)
    (folder / "state" / "job.json").unlink(missing_ok=True)
    return read_settings(folder / "fleet.toml"), True


def rounds_of(fleet: Deployment, watch: ServerWatch, seconds: float) -> list[dict[str, Any]]:
    """Wait for the end of the training; each round with what the server spent on it."""
    found, before, began = list[dict[str, Any]](), watch.cpu(), time.monotonic()
    while time.monotonic() - began < seconds:
        lines = fleet.log.lines()
        if len(lines) > len(found):
            now = watch.cpu()
            line = lines[len(found)]
            kept = ("round", "seconds", "answers", "refused", "bytes_up", "bytes_down", "lost", "attempts")
            found.append({key: line[key] for key in kept if key in line})
            found[-1]["server_cpu"] = spent(now, before)
            found[-1]["server_cpu_seconds"] = round(sum(now.values()) - sum(before.values()), 2)
            before = now
            print(json.dumps(found[-1]), flush=True)
        if fleet.status("server") is not None:
            break
        time.sleep(0.2)
    return found


def trial(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All of it; what came of it."""
    settings, joined = fleet_of(given, folder)
    fleet = Deployment(folder, settings)
    names = [f"d{number}" for number in range(given.devices)]
    swarms = None
    try:
        fleet.start("server")
        wait_for(
            lambda: fleet.state.line.exists() and fleet.state.members.exists(), "door", folder, seconds=240
        )
        pid = fleet.pid("server")
        assert pid is not None
        watch = ServerWatch(pid)
        began, idle = time.monotonic(), watch.cpu()
        invited = {} if joined else invite(settings, names, given.users)
        invitations = {name: [one.url, one.token] for name, one in invited.items()}
        print(json.dumps({"invited": len(invitations), "seconds": time.monotonic() - began}), flush=True)
        swarms = Swarms(plans_of(given, folder, invitations))
        wait_for(swarms.ready, "devices", folder, seconds=given.limit)
        joining = {"seconds": time.monotonic() - began, "server_cpu": spent(watch.cpu(), idle)}
        print(json.dumps({"joined": given.devices, **joining}), flush=True)
        (folder / "go").touch()
        rounds = rounds_of(fleet, watch, given.limit)
        told = swarms.end()
        watch.end()
        return summary(given, rounds, told, watch, joining)
    finally:
        if swarms is not None:
            swarms.end()
        fleet.look()
        fleet.stop()
        fleet.left(seconds=5.0)


def summary(
    given: argparse.Namespace,
    rounds: list[dict[str, Any]],
    told: list[dict[str, Any]],
    watch: ServerWatch,
    joining: dict[str, Any],
) -> dict[str, Any]:
    """The table's numbers."""
    counted = rounds[1:] or rounds
    answers = sum(line["answers"] for line in counted)
    of_server = sum(line["server_cpu_seconds"] for line in counted)
    return {
        "devices": given.devices,
        "users": given.devices * given.users,
        "carrier": given.carrier,
        "rounds_made": sum(not line.get("lost") for line in rounds),
        "answers": [line["answers"] for line in rounds],
        "round_seconds": max((line["seconds"] for line in counted), default=None),
        "server_cpu_seconds_per_device": of_server / answers if answers else None,
        "device_cpu_seconds_per_answer": sum(one["cpu"] for one in told)
        / max(1, sum(line["answers"] for line in rounds)),
        "peak_memory_gb": watch.peak_memory,
        "peak_memory_gb_of": watch.peaks,
        "memory_kb_per_device": watch.peak_memory * 2**20 / given.devices,
        "polls": merged(told, "polls"),
        "boards": {
            **merged(told, "boards"),
            "bytes": sum(one.get("boards", {}).get("bytes", 0) for one in told),
            "at_once": sum(one.get("boards", {}).get("at_once", 0) for one in told),
        },
        "handing_in": merged(told, "answers"),
        "joining": joining,
        "rounds": rounds,
        "swarms": told,
    }


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=7, help="of each device; 1: a person's own store")
    parser.add_argument("--rounds", type=int, default=1, help="alternations; two rounds come before them")
    parser.add_argument("--data", type=Path, help=".npz of triples, as make_x12.py writes it")
    parser.add_argument("--carrier", choices=("direct", "flower"), default="direct")
    parser.add_argument(
        "--polls", type=float, default=100.0, help="requests for work a second, of all devices"
    )
    parser.add_argument("--quorum", type=float, default=0.95, help="share of the devices")
    parser.add_argument("--swarms", type=int, default=2, help="processes of the devices")
    parser.add_argument("--threads", type=int, default=8, help="of each of them")
    parser.add_argument(
        "--limit", type=float, default=7200.0, help="seconds for joining, and for the training"
    )
    parser.add_argument("--keep", type=Path, help="folder of the fleet; it stays, and is used again")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    """Run, print, and fail where not every device was in every round."""
    given = arguments()
    where = tempfile.TemporaryDirectory() if given.keep is None else nullcontext(str(given.keep))
    with where as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        found = trial(given, Path(folder))
    text = json.dumps(found, indent=1)
    print(text)
    if given.json is not None:
        given.json.write_text(text)
    whole = found["rounds_made"] == given.rounds + 2 and min(found["answers"]) >= given.quorum * given.devices
    sys.exit(0 if whole else 1)


if __name__ == "__main__":
    main()
