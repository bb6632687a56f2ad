"""Two and four Ray nodes as processes on this machine, one of them killed in mid-round: the engine's boards?

usage: python benchmarks/speed/ray_nodes.py [--data ml-1m-x12.npz] [--rank 8] [--kernels compiled] [--repeats 1]
       [--json FILE]

``residual``, 3 rounds on items, seeded noise, the same kernels everywhere; without ``--data`` ratings of the shape
of ML-10M are made up. Each row is a fresh process. ``rounds`` are the seconds of the item rounds, ``CPU`` what all
processes of the row took meanwhile: driver, workers, raylets, Ray's servers and agents. A node has one core. In the
row with a killed node the raylet of the last node gets SIGKILL when half of the second item round's spans are
summed, and another node joins at once. Digests must be the same in all rows: else the exit code is 1.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from process_tree import cpu_seconds, family  # noqa: E402

from fedboard.simulations.config import SimulationConfig, parse_config  # noqa: E402
from fedboard.simulations.runs.directory import RunDirectory  # noqa: E402
from fedboard.simulations.simulate import Silent, simulate  # noqa: E402
from tests.simulations.engine.on_ray.nodes import Nodes  # noqa: E402

ROUNDS, EPSILON = 3, 5.0
OBJECT_STORE = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row: the engine with some workers, or Ray with some nodes."""

    name: str
    data: str
    rank: int
    kernels: str
    workers: int = 0
    nodes: int = 0
    killed: bool = False

    def config(self, address: str | None) -> SimulationConfig:
        runs = {"runtime": "ray", "address": address, "carry_code": False} if self.nodes else {}
        return parse_config(
            {
                "algorithm": "residual",
                "data": {"source": self.data},
                "privacy": {"epsilon": EPSILON},
                "settings": {"rank": self.rank, "rounds": ROUNDS},
                "run": {
                    **runs,
                    "workers": max(1, self.workers),
                    "kernels": self.kernels,
                    "baselines": False,
                    "evaluate_rounds": False,
                },
            }
        )


@dataclass
class Watch(Silent):
    """CPU seconds at the end of each round; kills a node in the middle of one."""

    nodes: Nodes | None = None
    doomed: int | None = None
    at: list[float] = field(default_factory=list)
    rounds: int = 0
    seen: dict[int, float] = field(default_factory=dict)
    """By process: CPU seconds when it was last looked at. Some end before their round does."""

    def look(self) -> float:
        """CPU seconds of all processes so far."""
        for pid in family(os.getpid()):
            self.seen[pid] = max(self.seen.get(pid, 0.0), cpu_seconds(pid))
        return sum(self.seen.values())

    def planned(self, problem: Any, rounds: Any) -> None:
        self.rounds = len(rounds)

    def progress(self, phase: str, done: int, total: int) -> None:
        self.look()
        second_of_items = len(self.at) == self.rounds - ROUNDS + 1
        if phase == "users" and second_of_items and done >= total // 2 and self.doomed is not None:
            os.kill(self.doomed, signal.SIGKILL)
            self.doomed = None
            assert self.nodes is not None
            self.nodes.join()

    def round_finished(self, line: Any) -> None:
        self.at.append(self.look())

    @property
    def of_items(self) -> float:
        """CPU seconds of the item rounds."""
        return self.at[-1] - self.at[-1 - ROUNDS]


def measured(case: Case) -> dict[str, Any]:
    """In this process and those that it starts."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as place:
        watch, address = Watch(), None
        if case.nodes:
            watch.nodes = Nodes(stack, object_store=OBJECT_STORE)
            joined = [watch.nodes.join() for _ in range(case.nodes - 1)]
            watch.doomed = joined[-1] if case.killed else None
            address = watch.nodes.address
        run = RunDirectory(Path(place) / "run")
        result = simulate(case.config(address), run.path, listener=watch, report=False)
        lines = [line for line in run.lines() if line["event"] == "round"]
        assert not case.killed or watch.doomed is None, "the node was to be killed, and was not"
        return {
            "rounds": sum(line["seconds"] for line in lines[-ROUNDS:]),
            "cpu": watch.of_items,
            "digest": result.board.digest,
        }


def in_fresh_process(case: Case) -> dict[str, Any]:
    """So that nobody profits from who ran before."""
    command = [sys.executable, __file__, "--one", json.dumps(asdict(case))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{case.name:34} rounds {found['rounds']:7.2f} s   CPU {found['cpu']:7.2f} s   "
        f"board {found['digest'][:16]}",
        flush=True,
    )
    return found


def compare(data: str, rank: int, kernels: str, repeats: int) -> dict[str, Any]:
    """Rows side by side; of several repeats, the least seconds of each."""
    same = {"data": data, "rank": rank, "kernels": kernels}
    cases = [
        Case(name="engine, 2 workers", workers=2, **same),
        Case(name="Ray, 2 nodes", nodes=2, **same),
        Case(name="Ray, 4 nodes", nodes=4, **same),
        Case(name="Ray, 4 nodes, one killed", nodes=4, killed=True, **same),
    ]
    runs = [{case.name: in_fresh_process(case) for case in cases} for _ in range(repeats)]
    found: dict[str, Any] = {}
    for case in cases:
        each = [run[case.name] for run in runs]
        found[case.name] = {key: min(run[key] for run in each) for key in ("rounds", "cpu")}
        found[case.name]["digests"] = sorted({run["digest"] for run in each})
    engine = found["engine, 2 workers"]["cpu"]
    for case in cases[1:]:
        found[case.name]["cpu_over_engine"] = found[case.name]["cpu"] / engine
    found["digest_equal"] = len({d for case in cases for d in found[case.name]["digests"]}) == 1
    return found


def main() -> int:
    """Compare all clusters with the engine; exit code 1 where a board differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="skewed:ml-10m")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--kernels", default="compiled")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(measured(Case(**json.loads(given.one)))))
        return 0
    found = compare(given.data, given.rank, given.kernels, given.repeats)
    for name, row in found.items():
        if isinstance(row, dict) and "cpu_over_engine" in row:
            print(f"{name}: CPU {row['cpu_over_engine']:.2f} times the engine's")
    print("all boards are the same" if found["digest_equal"] else "BOARDS DIFFER")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1))
    return 0 if found["digest_equal"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
