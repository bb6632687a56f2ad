"""A small fleet as real processes on 127.0.0.1, over TLS with node keys: its files, its processes, its ends."""

import contextlib
import csv
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from process_tree import family

from fedboard.client.ratings.cohort_file import write_cohort
from fedboard.common.board import Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.keys.node_keys import make_node_key
from fedboard.common.wire.signing import QuestionKey
from fedboard.server.fleet.plan.settings import FleetSettings, read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.rounds.round_log import RoundLog
from fedboard.server.tls import make_authority, make_server_certificate

FEDBOARD = (sys.executable, "-c", "from fedboard.cli.main import main; main()")
_BELOW_EPHEMERAL = range(12_000, 32_000)
"""Ports that no outgoing connection takes while a server is being restarted."""
_taken: set[int] = set()
_taking = threading.Lock()


@dataclass(frozen=True, kw_only=True)
class FleetPlan:
    """What a fleet is made of; the mappings are sections of ``fleet.toml`` and ``device.toml``."""

    nodes: Mapping[str, Cohort]
    catalogue: Catalogue
    task: Mapping[str, Any]
    privacy: Mapping[str, Any]
    rounds: Mapping[str, Any]
    protocol: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    statement: str = "made-up ratings"
    device_poll_seconds: float = 0.2


def free_ports(number: int) -> list[int]:
    """Ports that nothing listens on and that nobody else in this process gets."""
    with _taking:
        found = []
        start = _BELOW_EPHEMERAL.start + os.getpid() * 37 % 10_000
        for port in range(start, _BELOW_EPHEMERAL.stop):
            if port not in _taken and _is_free(port):
                found.append(port)
            if len(found) == number:
                break
        _taken.update(found)
        return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def make_fleet(folder: Path, plan: FleetPlan, *, door: int | None = None) -> FleetSettings:
    """Write keys, certificates, ratings and configurations.

    Args:
        folder: exists.
        plan: of the fleet.
        door: port that the devices are told; by default that of the proxy.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority, authority_key = folder / "authority.pem", folder / "authority.key"
    make_authority(authority, authority_key, name="trial")
    certificate, key = folder / "server.pem", folder / "server.key"
    make_server_certificate(certificate, key, authority=authority, authority_key=authority_key, names=())
    _write_catalogue(folder / "catalogue.csv", plan.catalogue)
    QuestionKey().write(folder)
    port, behind = free_ports(2)
    for name, cohort in plan.nodes.items():
        make_node_key(folder / name / "node.key", name=name)
        write_cohort(folder / name / "cohort", cohort, plan.catalogue.item_ids)
        (folder / name / "device.toml").write_text(toml(_device(plan, door or port)))
    (folder / "fleet.toml").write_text(toml(_fleet(plan, port, behind)))
    return read_settings(folder / "fleet.toml")


def _device(plan: FleetPlan, door: int) -> dict[str, Any]:
    return {
        "ratings": {"cohort": "cohort"},
        "policy": {
            "epsilon": 1.2 * plan.privacy["epsilon"],
            "delta": plan.privacy["delta"],
            "seeded_noise": plan.privacy["noise"] == "seeded",
            **plan.policy,
        },
        "server": {
            "address": f"127.0.0.1:{door}",
            "ca_certificate": "../authority.pem",
            "node_key": "node.key",
            "question_key": "../question-signing.pub",
            "poll_seconds": plan.device_poll_seconds,
        },
    }


def _fleet(plan: FleetPlan, port: int, behind: int) -> dict[str, Any]:
    return {
        "name": "trial",
        "task": plan.task,
        "privacy": plan.privacy,
        "catalogue": {"file": "catalogue.csv", "statement": plan.statement},
        "rounds": {"expected_nodes": len(plan.nodes), **plan.rounds},
        "protocol": plan.protocol,
        "network": {
            "listen": "127.0.0.1",
            "port": port,
            "superlink_port": behind,
            "certificate": "server.pem",
            "key": "server.key",
            "authority": "authority.pem",
            "question_key": "question-signing.key",
        },
        "nodes": [
            {"name": name, "public_key": f"{name}/node.pub", "max_users": cohort.n_users}
            for name, cohort in plan.nodes.items()
        ],
    }


def toml(sections: Mapping[str, Any]) -> str:
    """Sections as TOML: texts, numbers and lists look as they do in JSON."""
    return "".join(f"{name} = {_value(value)}\n" for name, value in sections.items())


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)


def _write_catalogue(path: Path, catalogue: Catalogue) -> None:
    titles = catalogue.titles or catalogue.item_ids
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerows([("item", "title"), *zip(catalogue.item_ids, titles, strict=True)])


class Deployment:
    """The processes of a fleet, by name; ``server`` is one of them. Only what was started here is ever ended."""

    def __init__(self, folder: Path, settings: FleetSettings) -> None:
        """Nothing is started yet."""
        self.folder, self.settings, self.state = folder, settings, StateFolder.of(settings)
        self.seen: set[tuple[int, str]] = set()
        """Every process below ours that was ever looked at: id and start time."""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def log(self) -> RoundLog:
        """The rounds so far."""
        return RoundLog(self.state.run / "rounds.jsonl")

    def start(
        self, name: str, command: Sequence[str] = FEDBOARD, *, stays: bool = False, **environment: str
    ) -> None:
        """Start the server or a device; ``command`` is the beginning of the command line."""
        config = self.folder / ("fleet.toml" if name == "server" else f"{name}/device.toml")
        words = ["server" if name == "server" else "client"]
        words += ["--until-trained"] if name == "server" and not stays else []
        self.start_command(name, [*command, *words, "--config", str(config)], **environment)

    def start_command(self, name: str, command: Sequence[str], **environment: str) -> None:
        """Start another process of the fleet, with a log of its own."""
        quiet = {"PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **quiet, **environment},
            )

    def status(self, name: str) -> int | None:
        """Exit status; None while it runs."""
        return self._processes[name].poll()

    def pid(self, name: str) -> int | None:
        """Its process id, where it was started and not ended."""
        process = self._processes.get(name)
        return None if process is None or process.poll() is not None else process.pid

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process that runs."""
        self._processes[name].send_signal(number)

    def end(self, name: str, number: signal.Signals, *, seconds: float = 30.0) -> int:
        """Send a signal and wait for the end; its exit status."""
        process = self._processes.pop(name)
        process.send_signal(number)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def part(self, words: str) -> int | None:
        """Process id of a part of the server, by words of its command line."""
        return next((pid for pid in self.look() if words in _command_line(pid)), None)

    def look(self) -> list[int]:
        """All processes that run below ours now."""
        below = [member for one in list(self._processes.values()) for member in family(one.pid)]
        self.seen.update((pid, started) for pid in below if (started := _start_time(pid)) is not None)
        return below

    def stop(self) -> None:
        """End what was started here, the server last."""
        for name in sorted(self._processes, key=lambda name: name == "server"):
            with contextlib.suppress(ProcessLookupError):
                self.end(name, signal.SIGTERM)

    def left(self, *, seconds: float = 10.0) -> list[str]:
        """Command lines of processes that outlive ``stop`` by so long; they are ended."""
        deadline = time.monotonic() + seconds
        while (alive := self._alive()) and time.monotonic() < deadline:
            time.sleep(0.1)
        left = [_command_line(pid) for pid in alive]
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left

    def _alive(self) -> list[int]:
        return [pid for pid, started in self.seen if _start_time(pid) == started]


@contextlib.contextmanager
def deployed(folder: Path, settings: FleetSettings) -> Iterator[Deployment]:
    """A deployment whose processes are gone afterwards, whatever happens."""
    deployment = Deployment(folder, settings)
    try:
        yield deployment
    finally:
        deployment.look()
        deployment.stop()
        deployment.left(seconds=5.0)


def wait_for(condition: Callable[[], object], what: str, folder: Path, *, seconds: float) -> None:
    """Wait, or end with the logs."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            logs = "\n".join(
                f"--- {path}\n{path.read_text()[-3000:]}" for path in sorted(folder.rglob("*.log"))
            )
            raise SystemExit(f"no {what} after {seconds:.0f} s\n{logs}")
        time.sleep(0.02)


def _start_time(pid: int) -> str | None:
    """Of a process that runs; ids are used again, so both together name it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
