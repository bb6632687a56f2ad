"""A job on Flower's simulation: a SuperLink of our own for the time of the run, and Ray actors as nodes.

Flower is started and asked by its own commands alone. ``RAY_ADDRESS`` in the environment names a Ray cluster to
use; without it Ray starts on this machine, on loopback.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fedboard.common.errors import FedboardError
from fedboard.common.privacy.accounting.guarantee import Guarantee
from fedboard.server.fleet.running import RoundLog
from fedboard.server.publication import BoardStore
from fedboard.server.runtime import Traffic
from fedboard.server.training import FinishedRound
from fedboard.simulations.flower.files import FleetFiles
from fedboard.simulations.ray.cluster import own_token
from fedboard.simulations.runs.trainer import OnRound

_ADDRESS: Final = "127.0.0.1"
_START_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.2
_ASK_SECONDS: Final = 30.0
"""How often Flower is asked whether the run goes on: the job itself says that it is over, unless it was killed."""
_COMMAND_SECONDS: Final = 120.0
_END_SECONDS: Final = 60.0
"""In which Flower and Ray end by themselves once the job is over."""
_GRACE_SECONDS: Final = 10.0
"""In which they end that were told to."""
_ORPHANS_ARE_OURS: Final = 36
"""Linux's PR_SET_CHILD_SUBREAPER."""
_CONNECTION: Final = "fedboard-run"
"""What Flower's own configuration calls this SuperLink."""
_APP: Final = {
    "pyproject.toml": """\
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
""",
    "cohorts/__init__.py": "",
    "cohorts/server_app.py": "from fedboard.simulations.flower import apps\n\napp = apps.server_app\n",
    "cohorts/client_app.py": "from fedboard.simulations.flower import apps\n\napp = apps.client_app\n",
}
"""The app that Flower wants to be given: it only names what is installed, by assignments that Flower can find."""


def run_on_ray(files: FleetFiles, on_round: OnRound) -> None:
    """Run the job on Flower's simulation and tell of each round as its board is published.

    Raises:
        FedboardError: the simulation did not start, or its run failed.
    """
    folder = Path(files.job.folder)
    log = RoundLog(folder / "rounds.jsonl")
    told = len(log.lines())
    with tempfile.TemporaryDirectory(prefix="fedboard-flower-") as place, _superlink(Path(place)) as flower:
        run = flower.start(files)
        ended = None
        while ended is None:
            time.sleep(_POLL_SECONDS)
            ended = flower.ended(run)
            lines = log.lines()
            for line in lines[told:]:
                on_round(_finished(line, files))
            told = len(lines)
        if ended:
            printed = folder / "flower.log"  # the processes that have printed it are gone
            printed.write_text(flower.printed(run), encoding="utf-8")
            raise FedboardError(f"the Flower simulation failed ({ended}); what it printed is in {printed}")


@dataclass(slots=True)
class _Flower:
    """A SuperLink that runs, asked by Flower's commands."""

    place: Path
    superlink: "subprocess.Popen[bytes]"
    environment: Mapping[str, str]
    asked: float = 0.0

    @property
    def outcome(self) -> Path:
        """What the job says at its end: an empty file, or the sentence of its error."""
        return self.place / "outcome"

    def start(self, files: FleetFiles) -> str:
        """Hand the run in; its number."""
        app = self.place / "app"
        (app / "cohorts").mkdir(parents=True)
        for name, content in _APP.items():
            (app / name).write_text(content, encoding="utf-8")
        config = {**files.run_config, "outcome": str(self.outcome)}
        with (app / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.writelines(f"{key} = {json.dumps(value)}\n" for key, value in config.items())
        found = self._told("run", str(app), _CONNECTION, "--federation-config", _simulation(files))
        self.asked = time.monotonic()
        if not found.get("run-id"):
            raise FedboardError(f"Flower did not take the simulation: {found.get('error-message', found)}")
        return str(found["run-id"])

    def ended(self, run: str) -> str | None:
        """Why the run has failed, empty where it has not; None while it goes on."""
        if self.superlink.poll() is not None:
            return "its SuperLink ended"
        if not self.outcome.exists() and time.monotonic() - self.asked < _ASK_SECONDS:
            return None
        until = time.monotonic() + _END_SECONDS
        while True:
            self.asked = time.monotonic()
            status, details = self._status(run)
            said = self.outcome.read_text(encoding="utf-8") if self.outcome.exists() else None
            if status.startswith("finished"):
                return "" if status == "finished:completed" else said or details or status
            if said is None or self.asked > until:
                return said

    def printed(self, run: str) -> str:
        """What the processes of the run have printed."""
        return self._said("log", run, _CONNECTION, "--show")

    def _status(self, run: str) -> tuple[str, str]:
        (found,) = self._told("list", _CONNECTION, "--run-id", run).get("runs") or [dict[str, Any]()]
        return str(found.get("status", "")), str(found.get("status-details", ""))

    def _told(self, *words: str) -> dict[str, Any]:
        """What a command of Flower's says as JSON, which stands in the last lines."""
        said = self._said(*words, "--format", "json")
        try:
            found: dict[str, Any] = json.loads(said[max(said.find("{"), 0) :])
        except json.JSONDecodeError as error:
            raise FedboardError(
                f"flwr {words[0]} says what nobody can read: {said.strip()[-300:]}"
            ) from error
        return found

    def _said(self, *words: str) -> str:
        command = [_beside_python("flwr"), *words]
        try:
            ran = subprocess.run(
                command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise FedboardError(f"flwr {words[0]} took longer than {_COMMAND_SECONDS:g} s") from error
        return ran.stdout.decode(errors="replace")


def _simulation(files: FleetFiles) -> str:
    options = {
        "num-supernodes": files.n_nodes,
        "client-resources-num-cpus": 1,
        "init-args-log-to-driver": False,
        "init-args-logging-level": "warning",
    }
    if "RAY_ADDRESS" not in os.environ:
        options["init-args-num-cpus"] = files.workers
    return " ".join(f"{key}={json.dumps(value)}" for key, value in options.items())


def _finished(line: dict[str, Any], files: FleetFiles) -> FinishedRound:
    """A round as it is in the log, with the board that it ended with."""
    board = BoardStore(Path(files.job.folder) / "boards")
    sizes = line["bytes_up_per_user"]
    traffic = None if sizes is None else Traffic(up=sizes, down=line["bytes_down_per_client"])
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
def _superlink(home: Path) -> Iterator[_Flower]:
    """A SuperLink for simulations on a free port; it ends with the block, or with this process."""
    port, log, environment = _free_port(), home / "superlink.log", _environment(home)
    connection = f'[superlink]\ndefault = "{_CONNECTION}"\n\n[superlink.{_CONNECTION}]\n'
    connection += f'address = "{_ADDRESS}:{port}"\ninsecure = true\n'
    (home / "config.toml").write_text(connection, encoding="utf-8")
    options = ["--insecure", "--simulation", "--host", _ADDRESS, "--port", str(port)]
    switches = ["--disable-runtime-dependency-installation"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, _beside_python("flower-superlink"), *options, *switches],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    try:
        _wait_until_ready(port, process, log)
        yield _Flower(home, process, environment)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.wait()


def _beside_python(command: str) -> str:
    return str(Path(sys.executable).with_name(command))


def _environment(home: Path) -> dict[str, str]:
    """Flower's home where it is told, nothing sent anywhere; Ray on loopback only, without its own reports, one
    thread for each actor. Unless a cluster is named, Ray is started anew: by itself it would join whatever else
    runs on this machine.
    """
    return {
        "RAY_ADDRESS": "local",
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        **(own_token() if os.environ.get("RAY_ADDRESS", "local") == "local" else {}),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "10",  # Ray's agents outlive an interrupted run for so long
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _wait_until_ready(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((_ADDRESS, port)) == 0:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise FedboardError(f"Flower's SuperLink did not start: {' '.join(last) or 'it says nothing'}")
        time.sleep(_POLL_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port


def _keep(command: list[str]) -> int:
    """Run a command until it ends or standard input does, which the kernel ends however the parent ends; then end
    all that it has started, which Flower by itself would do after a minute.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the parent has it too, and ends the input
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_ORPHANS_ARE_OURS, 1, 0, 0, 0)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    os.set_blocking(sys.stdin.fileno(), False)
    while child.poll() is None:
        try:
            if os.read(sys.stdin.fileno(), 1) == b"":
                break
        except BlockingIOError:
            time.sleep(_POLL_SECONDS)
    child.terminate()
    until = time.monotonic() + _GRACE_SECONDS
    with suppress(ChildProcessError):  # nobody is left
        while True:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(_POLL_SECONDS)
            if time.monotonic() > until:
                for left in {child.pid, *_children()}:
                    with suppress(ProcessLookupError):
                        os.kill(left, signal.SIGKILL)
    return child.returncode or 0


def _children() -> list[int]:
    """Of this process; orphans among all that it has started are its own."""
    try:
        return [int(number) for number in Path("/proc/thread-self/children").read_text().split()]
    except FileNotFoundError:  # not Linux
        return []


if __name__ == "__main__":
    sys.exit(_keep(sys.argv[1:]))
