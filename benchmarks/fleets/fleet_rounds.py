"""What a round of a deployed fleet costs before anything is computed: stock Flower nodes against warm ones.

usage: python benchmarks/fleets/fleet_rounds.py [--rounds 8] [--nodes 2] [--json FILE]

Each variant is a whole deployment on 127.0.0.1 over TLS with node keys: SuperLink with a database, our ServerApp,
nodes with one user each and a catalogue of 60 items, so that seconds are those of the transport. ``as shipped``
has stock nodes and the polls of Flower's own grid and SuperExec; ``stock nodes`` has our server with stock nodes;
``warm nodes`` is what ``fedboard server`` and ``fedboard client`` run, through the proxy.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from process_tree import memory, tree_cpu_seconds

from fedboard.client.ratings.cohort_file import write_cohort
from fedboard.common.cohort import cohort_from_triples
from fedboard.common.keys.node_keys import make_node_key
from fedboard.common.wire.signing import QuestionKey
from fedboard.server.fleet.plan.preparing import prepare
from fedboard.server.fleet.plan.settings import FleetSettings, read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.rounds.round_log import RoundLog
from fedboard.server.tls import make_authority, make_server_certificate

ITEMS, RATED = 60, 12
FEDBOARD = [sys.executable, "-c", "from fedboard.cli.main import main; main()"]
FLEET = """\
name = "trial"
task = {{ algorithm = "adadpals", settings = {{ rank = 2, rounds = {rounds} }} }}
privacy = {{ epsilon = 5.0, noise = "seeded" }}
catalogue = {{ file = "catalogue.csv" }}
rounds = {{ expected_nodes = {n_nodes}, quorum = {n_nodes}, deadline_seconds = 120, poll_seconds = {poll} }}
network = {{ listen = "127.0.0.1", port = {port}, superlink_port = {behind}, certificate = "server.pem", \
key = "server.key", authority = "authority.pem", question_key = "question-signing.key" }}
nodes = [{nodes}]
"""
DEVICE = """\
ratings = {{ cohort = "cohort" }}
policy = {{ epsilon = 6.0, delta = 1e-5, seeded_noise = true }}
server = {{ address = "127.0.0.1:{port}", ca_certificate = "../authority.pem", node_key = "node.key", \
question_key = "../question-signing.pub", poll_seconds = {poll} }}
"""


@dataclass(frozen=True, kw_only=True)
class Variant:
    name: str
    warm: bool
    server_poll: float
    superexec_poll: float


VARIANTS = (
    Variant(name="as shipped", warm=False, server_poll=3.0, superexec_poll=1.0),
    Variant(name="stock nodes", warm=False, server_poll=0.1, superexec_poll=0.1),
    Variant(name="warm nodes", warm=True, server_poll=0.1, superexec_poll=0.1),
)


def make_fleet(folder: Path, *, rounds: int, n_nodes: int, variant: Variant) -> FleetSettings:
    make_authority(folder / "authority.pem", folder / "authority.key", name="trial")
    make_server_certificate(
        folder / "server.pem",
        folder / "server.key",
        authority=folder / "authority.pem",
        authority_key=folder / "authority.key",
        names=(),
    )
    QuestionKey().write(folder)
    ids = tuple(f"i{number}" for number in range(ITEMS))
    (folder / "catalogue.csv").write_text("item,title\n" + "".join(f"{item},Film {item}\n" for item in ids))
    port, behind = free_ports(2)
    nodes = []
    for number in range(n_nodes):
        home = folder / f"n{number}"
        make_node_key(home / "node.key", name=home.name)
        random = np.random.default_rng(number)
        cohort = cohort_from_triples(
            np.zeros(RATED, dtype=np.int64),
            random.choice(ITEMS, RATED, replace=False),
            random.integers(1, 6, RATED).astype(np.float32),
            n_users=1,
            n_items=ITEMS,
        )
        write_cohort(home / "cohort", cohort, ids)
        (home / "device.toml").write_text(DEVICE.format(port=port, poll=0.2))
        nodes.append(f'{{ name = "{home.name}", public_key = "{home.name}/node.pub" }}')
    (folder / "fleet.toml").write_text(
        FLEET.format(
            rounds=rounds,
            n_nodes=n_nodes,
            poll=variant.server_poll,
            port=port,
            behind=behind,
            nodes=", ".join(nodes),
        )
    )
    return read_settings(folder / "fleet.toml")


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def node_command(folder: Path, name: str, settings: FleetSettings, *, warm: bool) -> list[str]:
    device = folder / name / "device.toml"
    if warm:
        return [*FEDBOARD, "client", "--config", str(device)]
    (runtime,) = free_ports(1)
    options = {
        "--root-certificates": str(settings.network.authority),
        "--superlink": f"127.0.0.1:{settings.network.superlink_port}",
        "--port": str(runtime),
        "--auth-supernode-private-key": str(folder / name / "node.key"),
        "--node-config": f'device="{device}"',
    }
    return ["flower-supernode", *(word for pair in options.items() for word in pair)]


@contextmanager
def running(command: list[str], log: Path, **environment: str) -> "Iterator[subprocess.Popen[bytes]]":
    quiet = {
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, stdout=stream, stderr=stream, env={**os.environ, **quiet, **environment}
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


def measure(variant: Variant, *, rounds: int, n_nodes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        settings = make_fleet(folder, rounds=rounds, n_nodes=n_nodes, variant=variant)
        prepare(settings)
        nodes = [
            stack.enter_context(
                running(
                    node_command(folder, f"n{number}", settings, warm=variant.warm),
                    folder / f"n{number}.log",
                    FLWR_HOME=str(folder / f"n{number}" / "flower"),
                    FLWR_SUPEREXEC_TASK_POLL_INTERVAL=str(variant.superexec_poll),
                )
            )
            for number in range(n_nodes)
        ]
        command = [*FEDBOARD, "server", "--config", str(folder / "fleet.toml")]
        server = stack.enter_context(running(command, folder / "server.log"))
        log = RoundLog(StateFolder.of(settings).run / "rounds.jsonl")
        wait_for_rounds(log, 2, folder)  # the first rounds hold imports and the wait for the nodes
        began, cpu = time.monotonic(), [tree_cpu_seconds(one.pid) for one in (*nodes, server)]
        wait_for_rounds(log, rounds + 1, folder)
        took = time.monotonic() - began
        spent = [
            tree_cpu_seconds(one.pid) - before for one, before in zip((*nodes, server), cpu, strict=True)
        ]
        counted = rounds - 1
        time.sleep(3.0)  # idle again
        return {
            "variant": variant.name,
            "round_seconds_median": median(line["seconds"] for line in log.lines()[2:]),
            "round_seconds_mean": took / counted,
            "node_cpu_seconds_per_round": sum(spent[:-1]) / counted / n_nodes,
            "server_cpu_seconds_per_round": spent[-1] / counted,
            "node_idle_mb": 1024 * sum(memory(one.pid) for one in nodes) / n_nodes,
            "server_idle_mb": 1024 * memory(server.pid),
        }


def wait_for_rounds(log: RoundLog, number: int, folder: Path) -> None:
    deadline = time.monotonic() + 400
    while len(log.lines()) < number:
        if time.monotonic() > deadline:
            logs = "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.log")))
            raise SystemExit(f"only {len(log.lines())} rounds:\n{logs}")
        time.sleep(0.02)


def main() -> None:
    """Measure each kind of node in turn."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = []
    for variant in VARIANTS:
        found.append(measure(variant, rounds=arguments.rounds, n_nodes=arguments.nodes))
        print(
            "  ".join(
                f"{name} {value if isinstance(value, str) else round(value, 3)}"
                for name, value in found[-1].items()
            ),
            flush=True,
        )
    if arguments.json is not None:
        record = {"nodes": arguments.nodes, "rounds": arguments.rounds, "variants": found}
        arguments.json.write_text(json.dumps({**record, "load": os.getloadavg()}, indent=2))


if __name__ == "__main__":
    main()
