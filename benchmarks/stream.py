"""Ratings that do not fit into memory: what a user costs however many there are, and the board of a run in memory.

usage: python benchmarks/stream.py [--users 1e6] [--from 1e4] [--memory-users 1e5] [--workers 2]
           [--algorithm residual] [--folder RUNS] [--json FILE]

Made-up people (``synthetic:users=N,items=20000,mean=15``): ``--from`` of them, ten times as many, ... up to
``--users``, each run in a fresh process from data to board, without baselines; in memory as far as
``--memory-users``, which must give the streamed run's board. Memory is proportional set size of all processes of a
run together. CPU seconds are of all processes and of rounds alone, without start, compiling and judging;
``users_per_cpu_second`` counts a user once in each round.

JSON is written after each run. With ``--folder`` runs are kept there: an interrupted run goes on with the same
command, and its ``rounds`` are then those of this call.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from process_tree import bytes_read, memory, tree_cpu_seconds

from fedboard.simulations.config import parse_config
from fedboard.simulations.runs.trainer import Listener
from fedboard.simulations.simulate import simulate

ITEMS, MEAN, JUDGED = 20_000, 15, 2_000
_LOOKS, _SELDOM = 0.05, 1.0
"""Seconds between looks at memory, in the first ten seconds of a run and later."""


class Rounds(Listener):
    """Listens to a run: CPU and wall seconds of each round."""

    def __init__(self) -> None:
        """Nothing has begun."""
        self.found: list[dict[str, Any]] = []
        self._began = (0.0, 0.0)

    def planned(self, *_: Any) -> None:
        """The first round begins."""
        self._began = tree_cpu_seconds(os.getpid()), time.monotonic()

    def round_finished(self, line: Mapping[str, Any]) -> None:
        """And the next one begins."""
        now = tree_cpu_seconds(os.getpid()), time.monotonic()
        cpu, wall = (after - before for after, before in zip(now, self._began, strict=True))
        told = {"round": line["round"], "stage": line["stage"], "cpu_seconds": cpu, "wall_seconds": wall}
        self.found.append(told)
        self._began = now


def one_run(config: dict[str, Any], out: Path) -> dict[str, Any]:
    """One run, in this process."""
    rounds, resume = Rounds(), (out / "config.toml").exists() or (out / "config.json").exists()
    result = simulate(parse_config(config), out, resume=resume, listener=rounds, report=False)
    return {"digest": result.board.digest, "metrics": dict(result.final["metrics"]), "rounds": rounds.found}


def measured(users: int, given: argparse.Namespace, folder: Path, **run: Any) -> dict[str, Any]:
    """The run in a process of its own, watched from outside."""
    config = {
        "algorithm": given.algorithm,
        "data": {"source": f"synthetic:users={users},items={ITEMS},mean={MEAN}"},
        "run": {"baselines": False, "evaluate_rounds": False, "workers": given.workers, **run},
    }
    way = "streamed" if run["streamed"] else "in memory"
    out = folder / f"{way.replace(' ', '-')}-{users}"
    command = [sys.executable, __file__, "--child", json.dumps(config), "--folder", str(out)]
    began, peak, read = time.monotonic(), 0.0, 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak, read = max(peak, memory(process.pid)), max(read, bytes_read(process.pid))
            time.sleep(_LOOKS if time.monotonic() - began < 10 else _SELDOM)
        told = process.stdout.read() if process.stdout else ""
    if process.returncode != 0:
        raise SystemExit(f"a run ended with exit code {process.returncode}: {config}")
    found = json.loads(told.splitlines()[-1])
    seconds = sum(line["cpu_seconds"] for line in found["rounds"])
    line = {
        "users": users,
        "way": way,
        "peak_memory_gb": round(peak, 3),
        "bytes_read": read,
        "wall_seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": seconds,
        "users_per_cpu_second": round(users * len(found["rounds"]) / seconds) if seconds else None,
        **found,
    }
    keys = ("way", "users", "peak_memory_gb", "wall_seconds", "cpu_seconds", "users_per_cpu_second")
    print("  ".join(f"{key} {line[key]}" for key in keys), flush=True)
    return line


def main() -> None:
    """Measure size after size; fails where a board in memory is another."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=float, default=1e6, help="the most people; default 1e6")
    parser.add_argument("--from", type=float, default=1e4, dest="first", help="the fewest; default 1e4")
    parser.add_argument("--memory-users", type=float, default=1e5, help="the most people in memory")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--algorithm", default="residual")
    parser.add_argument("--folder", type=Path, help="keep the runs here, and go on with those that are there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the numbers")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        print(json.dumps(one_run(json.loads(given.child), given.folder)))
        return
    sizes, users = list[dict[str, Any]](), int(given.first)
    with tempfile.TemporaryDirectory() as place:
        while users <= given.users:
            folder, judged = given.folder or Path(place), min(JUDGED, users)
            sizes.append(measured(users, given, folder, streamed=True, judged_users=judged))
            if users <= given.memory_users:
                sizes.append(measured(users, given, folder, streamed=False))
            pairs = {
                line["users"]: {one["digest"] for one in sizes if one["users"] == line["users"]}
                for line in sizes
            }
            equal = all(len(digests) == 1 for digests in pairs.values())
            if given.json is not None:
                given.json.write_text(json.dumps({"digest_equal": equal, "sizes": sizes}, indent=1) + "\n")
            users *= 10
    if not equal:
        raise SystemExit("the boards are not the same")


if __name__ == "__main__":
    main()
