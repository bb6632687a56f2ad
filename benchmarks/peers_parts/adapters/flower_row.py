"""Flower: the private round as a ServerApp and a ClientApp on its default simulation, by plain messages and arrays.

Ten nodes, as in Flower's own templates, each with a tenth of the users, whose part is the NumPy code of
``plain_round``. A node sends the sums over its users; the server adds them, puts noise onto them and solves. Ray's
start and one round that is thrown away come before the clock.
"""

import os
import threading
import time
from typing import Any

import numpy as np
from flower_node import NODES, client
from harness import Arrays, Job, Told, measured
from plain_round import Board, first_board, next_board, noised

MOST_SECONDS = 3600.0


def load() -> Any:
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # Ray listens on this machine only
    import flwr.clientapp
    import flwr.serverapp
    import flwr.simulation

    return flwr


def prepare(_: Any, job: Job) -> Any:
    return job.folder


def asked(grid: Any, nodes: list[int], board: Board) -> tuple[np.ndarray, np.ndarray]:
    """One message to each node, and the sums of what comes back."""
    from flwr.app import Array, ArrayRecord, Message, RecordDict

    content = RecordDict({"board": ArrayRecord({"factors": Array(board.factors)})})
    replies = list(
        grid.send_and_receive([Message(content, node, "query") for node in nodes], timeout=MOST_SECONDS)
    )
    wrong = [reply.error.reason for reply in replies if reply.has_error()]
    if wrong or len(replies) != len(nodes):
        raise RuntimeError(f"{len(replies)} of {len(nodes)} nodes answered; {wrong[:1]}")
    parts = [reply.content["sums"] for reply in replies]
    return sum(part["quadratic"].numpy() for part in parts), sum(part["linear"].numpy() for part in parts)


def server(job: Job, found: Any, over: threading.Event) -> Any:
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Any, _context: Any) -> None:
        while len(nodes := sorted(grid.get_node_ids())) < NODES:
            if over.wait(0.1):
                return
        first, rng = first_board(job.spec, job.arrays), np.random.default_rng(job.spec["seed"])
        asked(grid, nodes, first)
        start, board = time.monotonic(), first
        for number in range(1, job.spec["epochs"] + 1):
            sums = asked(grid, nodes, board)
            board = next_board(board, *noised(sums, number, job.spec, rng))
        found["fit_at"], found["factors"] = (start, time.monotonic()), board.factors

    return app


def fit(library: Any, job: Job, folder: Any) -> tuple[Arrays, Told]:
    """The whole simulation; Ray is its own, whatever else of Ray runs on this machine."""
    found: Any = {}
    over = threading.Event()
    ray = {"num_cpus": job.threads, "address": "local"}
    try:
        library.simulation.run_simulation(
            server_app=server(job, found, over),
            client_app=client(str(folder)),
            num_supernodes=NODES,
            backend_config={"init_args": ray, "client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )
    finally:  # a server that still waits for nodes would keep this process for ever
        over.set()
    return {"items": found["factors"]}, {"fit_at": found["fit_at"], "nodes": NODES}


if __name__ == "__main__":
    measured("flwr", load, prepare, fit, warm_up=False)
