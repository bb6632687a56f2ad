"""One task in every runtime: engine, grid in this process, Flower's simulation, a deployment of real processes.

usage: python benchmarks/speed/runtimes.py --data ml-1m-x12.npz [--json FILE]
       python benchmarks/speed/runtimes.py --check [--data ml-100k] [--json FILE]

Rank 8, 3 rounds, seeded noise, the same kernels everywhere: all boards must be the same to the last bit, which is
checked. ``rounds`` are the seconds of the rounds on items (the last three), ``with start-up`` is everything from
the start of the runtime to the last board (the data are loaded before). The deployment has two gateways with half
of the users each.

``--check`` prints the digests of ``adadpals`` and ``residual`` on ml-100k (FEDBOARD_DATA): engine with 1, 2 and 4
workers, in process, Flower's simulation, and three processes over TLS.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

from fleets.deployment import FleetPlan, deployed, make_fleet, wait_for

from fedboard.common.board import Catalogue
from fedboard.server.publication import BoardStore
from fedboard.simulations.config import SimulationConfig, parse_config
from fedboard.simulations.problem import Problem, load_problem
from fedboard.simulations.runs.directory import RunDirectory
from fedboard.simulations.simulate import Silent, simulate

RANK, ROUNDS, EPSILON = 8, 3, 5.0
MOST_SECONDS = 900.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """One runtime."""

    name: str
    data: str
    algorithm: str = "residual"
    runtime: str = "engine"
    kernels: str = "numpy"
    wire: str = "factored"
    workers: int = 2
    nodes: int = 4

    def config(self) -> SimulationConfig:
        return parse_config(
            {
                "algorithm": self.algorithm,
                "data": {"source": self.data},
                "privacy": {"epsilon": EPSILON},
                "settings": {"rank": RANK, "rounds": ROUNDS},
                "run": {
                    "runtime": "engine" if self.runtime == "deployment" else self.runtime,
                    "kernels": self.kernels,
                    "wire": self.wire,
                    "workers": self.workers,
                    "nodes": self.nodes,
                    "baselines": False,
                    "evaluate_rounds": False,
                },
            }
        )


@dataclass(frozen=True, kw_only=True)
class Timed:
    """What a run took, and its board."""

    rounds: float
    with_start_up: float
    digest: str
    bytes_up_per_user: float | None = None
    bytes_down_per_node: float | None = None


class LastRound(Silent):
    """When the last board was out."""

    at = 0.0

    def round_finished(self, line: Any) -> None:
        """A board is out."""
        self.at = time.monotonic()


def problem_of(case: Case) -> Problem:
    """The ratings; items without titles get their ids, since a fleet's catalogue lists titles."""
    problem = load_problem(case.config())
    ids = problem.catalogue.item_ids
    return replace(problem, catalogue=Catalogue(item_ids=ids, titles=problem.catalogue.titles or ids))


def simulated(case: Case) -> Timed:
    """In this process, or in those that it starts."""
    problem, watch = problem_of(case), LastRound()
    with tempfile.TemporaryDirectory() as place:
        run = RunDirectory(Path(place) / "run")
        began = time.monotonic()
        result = simulate(case.config(), run.path, listener=watch, problem=problem, report=False)
        lines = [line for line in run.lines() if line["event"] == "round"]
        return Timed(
            rounds=sum(line["seconds"] for line in lines[-ROUNDS:]),
            with_start_up=watch.at - began,
            digest=result.board.digest,
        )


def in_a_deployment(case: Case) -> Timed:
    """As processes over TLS."""
    problem = problem_of(case)
    ends = [problem.train.n_users * k // case.nodes for k in range(case.nodes + 1)]
    plan = FleetPlan(
        nodes={f"n{k}": problem.train.rows(ends[k], ends[k + 1]) for k in range(case.nodes)},
        catalogue=problem.catalogue,
        task={
            "algorithm": case.algorithm,
            "rating_range": list(problem.rating_range),
            "settings": {"rank": RANK, "rounds": ROUNDS},
        },
        privacy={"epsilon": EPSILON, "delta": 1e-5, "seed": 0},
        rounds={"quorum": case.nodes, "deadline_seconds": MOST_SECONDS},
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        settings = make_fleet(folder, plan)
        with deployed(folder, settings) as fleet:
            began = time.monotonic()
            for name in ("server", *plan.nodes):
                fleet.start(name)
            wait_for(
                lambda: fleet.status("server") is not None, "end of training", folder, seconds=MOST_SECONDS
            )
            board = BoardStore(fleet.state.run / "boards").latest()
            lines = fleet.log.lines()
            last_board = max((fleet.state.run / "boards").glob("*")).stat().st_mtime
            took = time.monotonic() - began - (time.time() - last_board)
        return Timed(
            rounds=sum(line["seconds"] for line in lines[-ROUNDS:]),
            with_start_up=took,
            digest=board.digest,
            bytes_up_per_user=median(line["bytes_up"] for line in lines[-ROUNDS:]) / problem.train.n_users,
            bytes_down_per_node=float(lines[-1]["bytes_down"]),
        )


def timed(case: Case) -> Timed:
    """In a fresh process, so that nobody profits from who ran before."""
    command = [sys.executable, __file__, "--one", json.dumps(asdict(case))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = Timed(**json.loads(done.stdout.splitlines()[-1]))
    print(
        f"{case.name:34} rounds {found.rounds:7.2f} s  with start-up {found.with_start_up:7.2f} s  "
        f"board {found.digest[:16]}"
        + ("" if found.bytes_up_per_user is None else f"  {found.bytes_up_per_user:.0f} B up per user"),
        flush=True,
    )
    return found


def compare(data: str, repeats: int) -> dict[str, Any]:
    """Runtimes side by side; of several repeats, the least seconds of each."""
    cases = [
        Case(name="engine, 1 worker", data=data, workers=1),
        Case(name="in process, 4 cohorts", data=data, runtime="in-process"),
        Case(name="engine, 2 workers", data=data),
        Case(name="Flower simulation, 4 cohorts", data=data, runtime="flower"),
        Case(name="Flower simulation, sums", data=data, runtime="flower", wire="dense"),
        Case(name="deployment, 2 gateways", data=data, runtime="deployment", nodes=2),
        Case(name="engine, 1 worker, compiled", data=data, workers=1, kernels="compiled"),
        Case(name="in process, compiled", data=data, runtime="in-process", kernels="compiled"),
        Case(name="engine, 2 workers, compiled", data=data, kernels="compiled"),
        Case(name="Flower simulation, compiled", data=data, runtime="flower", kernels="compiled"),
        Case(name="the same, sums", data=data, runtime="flower", kernels="compiled", wire="dense"),
    ]
    runs = [{case.name: timed(case) for case in cases} for _ in range(repeats)]
    found: dict[str, Any] = {}
    for case in cases:
        each = [run[case.name] for run in runs]
        found[case.name] = asdict(each[0]) | {
            "rounds": min(one.rounds for one in each),
            "with_start_up": min(one.with_start_up for one in each),
        }
    for kernels in ("numpy", "compiled"):
        digests = {run[case.name].digest for run in runs for case in cases if case.kernels == kernels}
        found[f"same_boards_{kernels}"] = len(digests) == 1
    for other, base in (
        ("in process, 4 cohorts", "engine, 1 worker"),
        ("Flower simulation, 4 cohorts", "engine, 2 workers"),
        ("Flower simulation, sums", "engine, 2 workers"),
        ("in process, compiled", "engine, 1 worker, compiled"),
        ("Flower simulation, compiled", "engine, 2 workers, compiled"),
        ("the same, sums", "engine, 2 workers, compiled"),
    ):
        for kind in ("rounds", "with_start_up"):
            found.setdefault("over_the_engine", {})[f"{other}: {kind}"] = (
                found[other][kind] / found[base][kind]
            )
    return found


def check(data: str) -> dict[str, Any]:
    """Digests of the last boards, by algorithm and runtime."""
    found: dict[str, Any] = {}
    for algorithm in ("adadpals", "residual"):
        cases = [
            *(
                Case(name=f"{algorithm}: engine, {n} workers", data=data, algorithm=algorithm, workers=n)
                for n in (1, 2, 4)
            ),
            Case(name=f"{algorithm}: in process", data=data, algorithm=algorithm, runtime="in-process"),
            Case(name=f"{algorithm}: Flower simulation", data=data, algorithm=algorithm, runtime="flower"),
            Case(
                name=f"{algorithm}: deployment, 3 processes",
                data=data,
                algorithm=algorithm,
                runtime="deployment",
                nodes=3,
            ),
        ]
        found[algorithm] = {case.name: timed(case).digest for case in cases}
    found["same"] = all(len(set(found[name].values())) == 1 for name in ("adadpals", "residual"))
    return found


def main() -> int:
    """Compare the runtimes, or check their boards alone; exit code 1 where two differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", help="ratings; for --check by default ml-100k in FEDBOARD_DATA")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.one is not None:
        case = Case(**json.loads(options.one))
        run = in_a_deployment if case.runtime == "deployment" else simulated
        print(json.dumps(asdict(run(case))))
        return 0
    if options.check:
        found = check(options.data or str(Path(os.environ["FEDBOARD_DATA"]) / "ml-100k"))
        good = bool(found["same"])
    else:
        found = {} if options.data is None else compare(options.data, options.repeats)
        good = all(found.get(f"same_boards_{kernels}", True) for kernels in ("numpy", "compiled"))
    found["load"] = os.getloadavg()
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
