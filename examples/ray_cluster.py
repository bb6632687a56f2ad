"""A simulation on a Ray cluster: two Ray nodes as processes on this machine, cohorts of users as Flower nodes.

On real machines, start ``ray start --head`` on one and ``ray start --address HEAD:6379`` on the others, with the
same fedboard installed everywhere and the run's folder and temporary folder (``TMPDIR``) on storage that all of
them share; then set RAY_ADDRESS and run ``fedboard simulate --runtime flower``, which is all that happens here.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import fedboard

ON_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def free_port() -> int:
    """A port that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ray_node(stack: ExitStack, log: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    """One Ray node as a child of this process, ended by its process id when the stack closes."""
    ray = Path(sys.executable).parent / "ray"
    command = [ray, "start", "--block", "--num-cpus", "1", "--node-ip-address", "127.0.0.1", *arguments]
    output = stack.enter_context(log.open("wb"))
    node = subprocess.Popen(command, env={**os.environ, **ON_LOOPBACK}, stdout=output, stderr=output)
    stack.callback(node.wait)
    stack.callback(node.terminate)
    return node


def wait_for(address: str, seconds: float = 60.0) -> None:
    """Wait until something listens there."""
    host, port = address.split(":")
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise SystemExit(f"nothing listens at {address}") from None
            time.sleep(0.2)


def main(out: Path) -> None:
    """Train on two Ray nodes, then once more with the engine, and compare the boards."""
    address = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-")))
        ray_node(
            stack,
            logs / "head.log",
            "--head",
            "--port",
            address.split(":")[1],
            "--include-dashboard",
            "false",
        )
        wait_for(address)
        ray_node(stack, logs / "worker.log", "--address", address)
        time.sleep(5)  # the second node registers
        digest = simulate(out / "cluster", "flower", {"RAY_ADDRESS": address})
    same = simulate(out / "engine", "engine", {})
    print(f"board of the cluster {digest[:16]}, of the engine {same[:16]}")
    if digest != same:
        raise SystemExit("the boards differ")


def simulate(out: Path, runtime: str, environment: dict[str, str]) -> str:
    """Train; the digest of the last board."""
    program = Path(sys.executable).parent / "fedboard"
    options = ["--runtime", runtime, "--nodes", "4", "--epsilon", "5", "--no-baselines", "--out", str(out)]
    settings = ["--algorithm", "residual", "--set", "data.synthetic.n_users=2000"]
    command = [program, "simulate", *settings, *options]
    subprocess.run(command, env={**os.environ, **environment}, check=True)
    return fedboard.load_board(out).digest


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/ray-cluster"))
