"""The processes of rows: one Ray cluster for all that need it, and fleets. Only what was started here is ended."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

_MOST_SECONDS = 600.0


class Cluster(ExitStack):
    """Ray on loopback, started when the first row needs it, ended with the block."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder, self._address = folder, ""

    def beside(self, job: Callable[[Path], Any], place: Path) -> Any:
        """Do something while the environment names the cluster."""
        if not self._address:
            self._start()
        os.environ["RAY_ADDRESS"] = self._address
        try:
            return job(place)
        finally:
            del os.environ["RAY_ADDRESS"]

    def _start(self) -> None:
        (port,) = free_ports(1)
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
        ray = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--num-cpus", "2"]
        here = ["--node-ip-address", "127.0.0.1", "--port", str(port), "--include-dashboard", "false"]
        process = started([*ray, *here, "--temp-dir", str(self._folder / "ray")], self._folder / "ray.log")
        self.callback(ended, process)
        wait(lambda: _answers(port), [process], self._folder)
        self._address = f"127.0.0.1:{port}"


def trained_fleet(folder: Path, port: int, commands: Mapping[str, Sequence[str]]) -> None:
    """Start the server of a fleet, its devices once it listens, and wait until it has ended."""
    with ExitStack() as stack:
        processes = []
        for name, words in commands.items():
            processes.append(started(words, folder / f"{name}.log"))
            stack.callback(ended, processes[-1])
            wait(lambda: _answers(port), processes, folder)
        wait(lambda: processes[0].poll() is not None, processes[1:], folder)
        if processes[0].returncode:
            raise RuntimeError(f"the server ended with {processes[0].returncode}: {_logs(folder)}")


def started(words: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as stream:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)


def ended(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait(until: Callable[[], bool], alive: Sequence["subprocess.Popen[bytes]"], folder: Path) -> None:
    """Wait for it, as long as these processes run."""
    deadline = time.monotonic() + _MOST_SECONDS
    while not until():
        if time.monotonic() > deadline or any(process.poll() is not None for process in alive):
            raise RuntimeError(
                f"a process ended, or nothing came of it in {_MOST_SECONDS} s: {_logs(folder)}"
            )
        time.sleep(0.05)


def _logs(folder: Path) -> str:
    return " | ".join(f"{path.name}: {path.read_text()[-600:]}" for path in sorted(folder.glob("*.log")))


def free_ports(number: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
