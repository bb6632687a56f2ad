"""A job on Flower's simulation: a SuperLink of our own for the time of the run, and Ray actors as nodes.

``RAY_ADDRESS`` in the environment names a Ray cluster to use; without it Ray starts on this machine, on loopback.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flwr.proto.federation_config_pb2 import SimulationConfig

from fedboard.common.errors import FedboardError
from fedboard.common.privacy.accounting.guarantee import Guarantee
from fedboard.server.fleet.processes.control import Control, RunState
from fedboard.server.fleet.processes.superlink import ADDRESS, flower_environment
from fedboard.server.fleet.rounds.round_log import RoundLog
from fedboard.server.publication import BoardStore
from fedboard.server.runtime import Traffic
from fedboard.server.training import FinishedRound
from fedboard.simulations.engine.on_ray.cluster import own_token
from fedboard.simulations.flower.files import FleetFiles
from fedboard.simulations.runs.trainer import OnRound

_START_SECONDS = 60.0
_POLL_SECONDS = 0.2
_STATE_SECONDS = 1.0
_OUR_ERROR = re.compile(r"^fedboard\.[\w.]+Error: (.*)$", re.MULTILINE)
"""How Python prints an error of ours, whose sentence says more than Flower's."""

_BUNDLE = {
    "pyproject.toml": b"""\
[project]
name = "fedboard-simulation"
version = "1.0.0"
license = "Apache-2.0"

[tool.flwr.app]
publisher = "fedboard"

[tool.flwr.app.components]
serverapp = "cohorts.server_app:app"
clientapp = "cohorts.client_app:app"

[tool.flwr.app.config]
job = ""
cohorts = ""
kernels = ""
noise = ""
seed = 0
server = ""
""",
    "cohorts/__init__.py": b"",
    "cohorts/server_app.py": b"from fedboard.server.fleet import server_app\n\napp = server_app.app\n",
    "cohorts/client_app.py": b"from fedboard.simulations.flower import cohort_app\n\napp = cohort_app.app\n",
}
"""The app that Flower wants to be given: it only names what is installed, by assignments that Flower can find."""


def run_on_ray(files: FleetFiles, on_round: OnRound) -> None:
    """Run the job on Flower's simulation and tell of each round as its board is published.

    Raises:
        FedboardError: the simulation did not start, or its run failed.
    """
    log, told = RoundLog(Path(files.job.folder) / "rounds.jsonl"), 0
    told = len(log.lines())
    with tempfile.TemporaryDirectory(prefix="fedboard-flower-") as home, _superlink(Path(home)) as control:
        control.hand_in(_BUNDLE, files.run_config, _simulation(files))
        for state in _states(control):
            lines = log.lines()
            for line in lines[told:]:
                on_round(_finished(line, files))
            told = len(lines)
            if state.finished and not state.completed:
                raise _failure(control, state, Path(files.job.folder) / "flower.log")


def _failure(control: Control, state: RunState, place: Path) -> FedboardError:
    """Keep what the processes of the run have printed, since they are gone, and say where."""
    printed = control.log(state.run_id)
    place.write_text(printed, encoding="utf-8")
    ours = _OUR_ERROR.findall(printed)
    why = ours[-1] if ours else state.details
    return FedboardError(f"the Flower simulation failed ({why}); what it printed is in {place}")


def _states(control: Control) -> Iterator[RunState]:
    """The state of the one run, again and again until it has finished."""
    while True:
        state, asked = control.runs()[0], time.monotonic()
        while True:
            yield state
            if state.finished:
                return
            time.sleep(_POLL_SECONDS)
            if time.monotonic() - asked > _STATE_SECONDS:
                break


def _simulation(files: FleetFiles) -> SimulationConfig:
    simulation = SimulationConfig(
        num_supernodes=files.n_nodes,
        client_resources_num_cpus=1,
        init_args_log_to_driver=False,
        init_args_logging_level="warning",
    )
    if "RAY_ADDRESS" not in os.environ:
        simulation.init_args_num_cpus = files.workers
    return simulation


def _finished(line: dict[str, Any], files: FleetFiles) -> FinishedRound:
    """A round as it is in the log, with the board that it ended with."""
    board = BoardStore(Path(files.job.folder) / "boards")
    sizes = line["bytes_up_per_user"]
    traffic = None if sizes is None else Traffic.from_dict(sizes, line["bytes_down_per_client"])
    return FinishedRound(
        board=board.load(line["round"] + 1),
        releases=tuple(line["releases"]),
        rejected_rows=line["rejected_rows"],
        traffic=traffic,
        seconds=line["seconds"],
        spent=Guarantee(
            epsilon=line["epsilon_spent"], delta=line["delta"], adjacency=files.job.privacy.adjacency
        ),
    )


@contextmanager
def _superlink(home: Path) -> Iterator[Control]:
    """A SuperLink for simulations on a free port; it ends with the block, or with this process."""
    port = _free_port()
    options = ["--insecure", "--simulation", "--host", ADDRESS, "--port", str(port)]
    control_port = ["--control-api-address", f"{ADDRESS}:{_free_port()}"]
    log = home / "superlink.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedboard.server.fleet.processes.superlink", *options, *control_port],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_environment(home),
        )
    try:
        with Control(port=port, authority=None) as control:
            _wait_until_ready(control, process, log)
            yield control
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _environment(home: Path) -> dict[str, str]:
    """Ray on loopback only, without its own reports; one thread for each actor. Unless a cluster is named, Ray is
    started anew: by itself it would join whatever else runs on this machine.
    """
    return {
        "RAY_ADDRESS": "local",
        **flower_environment(home),
        **(own_token() if os.environ.get("RAY_ADDRESS", "local") == "local" else {}),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "10",  # Ray's agents outlive an interrupted run for so long
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _wait_until_ready(control: Control, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not control.ready():
        if process.poll() is not None or time.monotonic() > deadline:
            last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise FedboardError(f"Flower's SuperLink did not start: {' '.join(last) or 'it says nothing'}")
        time.sleep(_POLL_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port
