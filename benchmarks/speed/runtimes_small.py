"""What a fleet costs whatever the data are: fixed seconds of a round, one-user nodes, carrying messages."""

import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from fleets.deployment import Deployment, FleetPlan, deployed, make_fleet, wait_for
from process_tree import cpu_seconds

from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import load_problem
from fedboard.simulations.simulate import simulate

ROUNDS = 8
PROCESSES, PHONES, LARGE = 8, 2_000, 20_000
IDLE_SECONDS = 15.0
CARRIERS = ("fedboard.server.fleet.processes.superlink", "fedboard.server.fleet.processes.proxy_process")


def small_fleets() -> dict[str, Any]:
    """All of it; CPU seconds are of one core."""
    return {
        "two_nodes": _processes(2),
        "two_nodes_large_board": _processes(2, n_items=LARGE),
        "one_user_processes": _processes(PROCESSES),
        "one_user_nodes_in_process": _in_process(PHONES),
    }


def _processes(n_nodes: int, *, n_items: int = 100) -> dict[str, Any]:
    """A deployment of one-user nodes, rank 32: rounds, then nothing but polls."""
    problem = load_problem(
        parse_config(
            {"data": {"synthetic": {"n_users": n_nodes, "n_items": n_items, "mean_ratings_per_user": 30.0}}}
        )
    )
    plan = FleetPlan(
        nodes={f"n{k}": problem.train.rows(k, k + 1) for k in range(n_nodes)},
        catalogue=problem.catalogue,
        task={"algorithm": "residual", "settings": {"rank": 32, "rounds": ROUNDS}},
        privacy={"epsilon": 5.0, "delta": 1e-5, "noise": "seeded"},
        rounds={"quorum": n_nodes, "deadline_seconds": 300.0, "poll_seconds": 0.1},
        device_poll_seconds=0.2,
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with deployed(folder, make_fleet(folder, plan)) as fleet:
            fleet.start("server", stays=True)
            for name in plan.nodes:
                fleet.start(name)
            wait_for(lambda: len(fleet.log.lines()) >= 2, "second round", folder, seconds=300)
            first = _look(fleet)
            wait_for(lambda: len(fleet.log.lines()) == ROUNDS + 2, "last round", folder, seconds=300)
            last = _look(fleet)
            time.sleep(2.0)
            idle = _look(fleet)
            time.sleep(IDLE_SECONDS)
            end = _look(fleet)
            lines = fleet.log.lines()
    told = _told(n_nodes, [line["seconds"] for line in lines[2:]], first, last, idle, end)
    return told | {"bytes_down": lines[-1]["bytes_down"]}


def _look(fleet: Deployment) -> dict[str, float]:
    """When, CPU seconds of what carries messages, requests so far, rounds so far."""
    cpu = sum(cpu_seconds(pid) for words in CARRIERS if (pid := fleet.part(words)) is not None)
    file = fleet.state.counts / "proxy.json"  # written every few seconds
    counts = json.loads(file.read_text())["responses"] if file.exists() else {}
    return {
        "time": time.monotonic(),
        "cpu": cpu,
        "requests": float(sum(counts.values())),
        "counted": file.stat().st_mtime if file.exists() else 0.0,
        "rounds": float(len(fleet.log.lines())),
    }


def _told(
    n_nodes: int,
    seconds: list[float],
    first: dict[str, float],
    last: dict[str, float],
    idle: dict[str, float],
    end: dict[str, float],
) -> dict[str, Any]:
    cpu_a_second = (end["cpu"] - idle["cpu"]) / (end["time"] - idle["time"])
    polls_a_second = (end["requests"] - idle["requests"]) / (end["counted"] - idle["counted"])
    answers = n_nodes * (last["rounds"] - first["rounds"])
    carrying = last["cpu"] - first["cpu"] - cpu_a_second * (last["time"] - first["time"])
    return {
        "nodes": n_nodes,
        "round_seconds": median(seconds),
        "users_per_second": n_nodes / median(seconds),
        "carry_per_poll": cpu_a_second / polls_a_second,
        "carry_per_answer": max(carrying, 0.0) / answers,
        "polls_per_second_when_idle": polls_a_second,
    }


def _in_process(n_nodes: int) -> dict[str, Any]:
    """One-user nodes on the grid in this process, 100 items."""
    config = parse_config(
        {
            "algorithm": "residual",
            "data": {"synthetic": {"n_users": n_nodes, "n_items": 100, "mean_ratings_per_user": 30.0}},
            "settings": {"rank": 8, "rounds": 3},
            "run": {
                "runtime": "in-process",
                "nodes": n_nodes,
                "kernels": "numpy",
                "baselines": False,
                "evaluate_rounds": False,
            },
        }
    )
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        simulate(config, run, report=False)
        lines = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
    seconds = median(line["seconds"] for line in lines[2:])
    return {"nodes": n_nodes, "round_seconds": seconds, "users_per_second": n_nodes / seconds}
