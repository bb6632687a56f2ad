"""The rates of the fleet's cost model on this machine: real rounds of many sizes, and a fit through them.

usage: python benchmarks/fleet_costs.py [--quick] [--json FILE]

Each case is a private run over nodes in this process (the apps of a deployment, numpy kernels, one thread). Its last
rounds are timed in CPU seconds: what the nodes take to answer, and what the server takes for everything else. The
coefficients of ``fedboard.simulations.fleet_costs.Rates`` are fitted to all cases at once, so that relative errors
are small; the table shows model and measurement side by side, bytes too. Carrying a message (Flower, TLS, disk) is
measured by ``fleet_rounds.py`` and ``runtimes.py``, not here.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

import numpy as np
from process_tree import peak_memory  # noqa: F401
from scipy.optimize import nnls

from fedboard.client.fleet import answering_app
from fedboard.server.publication import BoardStore
from fedboard.server.training import FinishedRound
from fedboard.simulations.config import parse_config
from fedboard.simulations.fleet_costs import (
    Fleet,
    Method,
    Rates,
    RoundCosts,
    node_terms,
    round_costs,
    server_terms,
)
from fedboard.simulations.problem import load_problem
from fedboard.simulations.simulate import Silent, simulate

BASE = Fleet(users=2_000, items=1_000, rank=8, ratings_per_user=30.0, users_per_node=500)


def cases(quick: bool) -> Iterator[tuple[Fleet, str]]:
    """Sizes, each varied by itself, both methods, both forms, gateways and phones."""
    for method in Method:
        base = replace(BASE, method=method)
        yield base, "factored"
        yield replace(base, users=60, users_per_node=1), "factored"
        yield replace(base, rank=32), "factored"
        if quick:
            continue
        yield replace(base, users=8_000, users_per_node=2_000), "factored"
        yield replace(base, users=8_000, users_per_node=2_000, rank=32), "factored"
        yield replace(base, items=8_000), "factored"
        yield replace(base, items=8_000, users=60, users_per_node=1), "factored"
        yield replace(base, users=400, users_per_node=1), "factored"
        yield replace(base, users=60, users_per_node=1, rank=32, items=4_000), "factored"
        yield replace(base, ratings_per_user=120.0), "factored"
        yield base, "dense"
        yield replace(base, rank=32, users=4_000, users_per_node=1_000), "dense"


class Watch(Silent):
    """CPU seconds of the nodes and of the whole process, round by round."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.nodes = 0.0
        self.rounds: list[tuple[float, float]] = []
        """(nodes, everything) up to the end of each round."""

    def round_finished(self, line: Any) -> None:
        """A board is out."""
        self.rounds.append((self.nodes, time.process_time()))

    @contextmanager
    def on_nodes(self) -> Iterator[None]:
        """Time what nodes do."""
        original = answering_app.respond

        def timed(*arguments: Any, **options: Any) -> bytes:
            began = time.process_time()
            try:
                return original(*arguments, **options)
            finally:
                self.nodes += time.process_time() - began

        with mock.patch.object(answering_app, "respond", timed):
            yield


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One item round of a fleet."""

    fleet: Fleet
    form: str
    board_bytes: int
    bytes_per_node: int
    node_seconds: float
    server_seconds: float


def measure(fleet: Fleet, form: str, *, rounds: int = 4) -> Measured:
    """Run it; medians over the item rounds but the first."""
    config = parse_config(
        {
            "algorithm": fleet.method.value,
            "data": {
                "synthetic": {
                    "n_users": fleet.users,
                    "n_items": fleet.items,
                    "mean_ratings_per_user": fleet.ratings_per_user / 0.8,  # the rest is held out
                }
            },
            "privacy": {"epsilon": 5.0},
            "settings": {"rank": fleet.rank, "rounds": rounds},
            "run": {
                "runtime": "in-process",
                "nodes": fleet.nodes,
                "wire": form,
                "kernels": "numpy",
                "evaluate_rounds": False,
                "baselines": False,
            },
        }
    )
    problem, watch = load_problem(config), Watch()
    with tempfile.TemporaryDirectory() as place, watch.on_nodes():
        run = Path(place) / "run"
        simulate(config, run, listener=watch, problem=problem, report=False)
        store = BoardStore(run / "boards")
        log = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()]
        board_bytes = store.path(store.versions()[-1]).stat().st_size
    nodes, whole = (np.diff(column)[-(rounds - 1) :] for column in np.array(watch.rounds).T)
    return Measured(
        fleet=replace(fleet, ratings_per_user=problem.train.n_ratings / problem.train.n_users),
        form=form,
        board_bytes=board_bytes,
        bytes_per_node=log[-1]["bytes_up"] // log[-1]["answers"],
        node_seconds=float(median(nodes)) / fleet.nodes,
        server_seconds=float(median(whole - nodes)),
    )
