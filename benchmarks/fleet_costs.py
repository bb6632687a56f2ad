"""The rates of the fleet's cost model on this machine: real rounds of many sizes, and a fit through them.

usage: python benchmarks/fleet_costs.py [--quick] [--json FILE]

Each case is a private run over nodes in this process (the apps of a deployment, numpy kernels, one thread). Its
last rounds are timed in CPU seconds: what the nodes take to answer, and what the server takes for everything else.
The coefficients of ``fedboard.server.fleet.plan.costs.Rates`` are fitted to all cases at once, so that relative
errors are small; the table shows model and measurement side by side, bytes too. Carrying a message (Flower, TLS,
disk) is measured by ``runtimes.py``, not here.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import nnls

from fedboard.client.fleet import answering_app
from fedboard.server.fleet.plan.costs import (
    Fleet,
    Rates,
    node_terms,
    round_costs,
    server_terms,
)
from fedboard.server.publication import BoardStore
from fedboard.simulations.config import parse_config
from fedboard.simulations.problem import load_problem
from fedboard.simulations.simulate import Silent, simulate

MEASURED = ("adadpals", "residual")
BASE = Fleet(users=2_000, items=1_000, rank=8, ratings_per_user=30.0, users_per_node=500)


def cases(quick: bool) -> Iterator[tuple[Fleet, str]]:
    """Sizes, each varied by itself, every algorithm, both forms, gateways and phones."""
    for algorithm in MEASURED:
        base = replace(BASE, algorithm=algorithm)
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
        yield replace(base, rank=16, users_per_node=50), "dense"
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
            "algorithm": fleet.algorithm,
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
    catalogue = problem.catalogue
    nodes, whole = (np.diff(column)[-(rounds - 1) :] for column in np.array(watch.rounds).T)
    return Measured(
        fleet=replace(
            fleet,
            ratings_per_user=problem.train.n_ratings / problem.train.n_users,
            title_bytes=len(json.dumps([catalogue.item_ids, catalogue.titles])) / fleet.items,
        ),
        form=form,
        board_bytes=board_bytes,
        bytes_per_node=log[-1]["bytes_up"] // log[-1]["answers"],
        node_seconds=float(median(nodes)) / fleet.nodes,
        server_seconds=float(median(whole - nodes)),
    )


def fitted(found: list[Measured]) -> Rates:
    """Rates >= 0 with the least sum of squared relative errors."""
    values = asdict(Rates())
    for seconds, terms_of in (("node_seconds", node_terms), ("server_seconds", server_terms)):
        terms = [terms_of(one.fleet, one.form) for one in found]
        names = list(terms[0])
        times = np.array([getattr(one, seconds) for one in found])
        amounts = np.array([[row[name] for name in names] for row in terms]) / times[:, None]
        scale = amounts.max(axis=0)
        solution, _ = nnls(amounts / scale, np.ones(len(found)))
        values |= dict(zip(names, (solution / scale).tolist(), strict=True))
    return Rates(**values)


def table(found: list[Measured], rates: Rates) -> list[dict[str, Any]]:
    """Model against measurement."""
    lines = []
    for one in found:
        fleet = one.fleet
        costs = round_costs(fleet, rates)
        node = sum(asdict(rates)[name] * x for name, x in node_terms(fleet, one.form).items())
        server = sum(asdict(rates)[name] * x for name, x in server_terms(fleet, one.form).items())
        sizes = {"factored": costs.factored_bytes_per_node, "dense": costs.dense_bytes_per_node}
        lines.append(
            {
                "case": f"{fleet.algorithm} {one.form} users {fleet.users} nodes {fleet.nodes} items {fleet.items} "
                f"rank {fleet.rank} ratings {fleet.ratings_per_user:.0f}",
                "node_ms": (1e3 * one.node_seconds, 1e3 * node),
                "server_ms": (1e3 * one.server_seconds, 1e3 * server),
                "answer_bytes": (one.bytes_per_node, sizes[one.form]),
                "board_bytes": (one.board_bytes, costs.board_bytes),
            }
        )
    return lines


def main() -> None:
    """Measure all cases, fit the rates, and print both beside each other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three cases of each algorithm")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = []
    for fleet, form in cases(options.quick):
        found.append(measure(fleet, form))
        print(f"\rmeasured {len(found)}", end="", file=sys.stderr, flush=True)
    rates = fitted(found)
    lines = table(found, rates)
    for line in lines:
        pairs = "  ".join(f"{name} {a:.5g} (model {b:.5g})" for name, (a, b) in list(line.items())[1:])
        print(f"{line['case']}: {pairs}")
    for name, value in asdict(rates).items():
        print(f"{name}: {value:.3g}")
    if options.json:
        record = {"rates": asdict(rates), "cases": lines, "load": os.getloadavg()}
        options.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
