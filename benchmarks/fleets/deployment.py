"""A fleet as real processes on 127.0.0.1, over TLS: its files, its members, its processes, their ends."""

import contextlib
import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from process_tree import family

from fedboard.client.participation.joining import become_member, join
from fedboard.client.private_files import make_private_folder
from fedboard.client.ratings.cohort_file import write_cohort
from fedboard.client.ratings.store import OwnRating, RatingStore
from fedboard.common.board import Catalogue
from fedboard.common.cohort import Cohort
from fedboard.common.messages.addresses import Address
from fedboard.common.messages.enrolment import (
    Introduction,
    Invitation,
    digest_of_introduction,
    fresh_secret,
)
from fedboard.server.fleet.credentials import introduction_of, make_keys
from fedboard.server.fleet.enrolment import Enrolment
from fedboard.server.fleet.register import Register
from fedboard.server.fleet.settings import FleetSettings, read_settings
from fedboard.server.fleet.state_folder import RoundLog, StateFolder
from tests.ports import free_ports
from tests.server.fleet.made import toml_value

FEDBOARD = (sys.executable, "-c", "from fedboard.cli.main import main; main()")
_INVITED_SECONDS = 86_400.0


@dataclass(frozen=True, kw_only=True)
class FleetPlan:
    """What a fleet is made of; the mappings are sections of ``fleet.toml`` and ``device.toml``."""

    nodes: Mapping[str, Cohort]
    """Ratings by device. None of them: devices join later, over the port."""
    catalogue: Catalogue
    task: Mapping[str, Any]
    privacy: Mapping[str, Any]
    rounds: Mapping[str, Any]
    protocol: Mapping[str, Any] = field(default_factory=dict)
    members: Mapping[str, Any] = field(default_factory=dict)
    boards: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    trusted: Mapping[str, Any] = field(default_factory=dict)
    """``[boards]`` of the devices."""
    statement: str = "made-up ratings"


def make_fleet(folder: Path, plan: FleetPlan, *, door: int | None = None) -> FleetSettings:
    """Write keys, ratings and configurations, and make members of all devices.

    Args:
        folder: exists.
        plan: of the fleet.
        door: port that the devices are told; by default that of the server.
    """
    folder.mkdir(parents=True, exist_ok=True)
    make_keys(folder / "keys", name="trial", hosts=())
    titles = plan.catalogue.titles or plan.catalogue.item_ids
    with (folder / "catalogue.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("item", "title"), *zip(plan.catalogue.item_ids, titles, strict=True)])
    port, ops = free_ports(2)
    users = sum(cohort.n_users for cohort in plan.nodes.values())
    most = max((cohort.n_users for cohort in plan.nodes.values()), default=1)
    sections = {
        "name": "trial",
        "task": plan.task,
        "privacy": plan.privacy,
        "catalogue": {"file": "catalogue.csv", "statement": plan.statement},
        "rounds": {"devices": len(plan.nodes), **plan.rounds},
        "protocol": plan.protocol,
        "network": {"address": f"127.0.0.1:{port}", "ops": f"127.0.0.1:{ops}"},
        "members": plan.members or {"users": max(users, len(plan.nodes) + most - 1)},
        "boards": plan.boards,
    }
    (folder / "fleet.toml").write_text(toml(sections))
    settings = read_settings(folder / "fleet.toml")
    StateFolder.of(settings).make()
    invited = invite(settings, {name: cohort.n_users for name, cohort in plan.nodes.items()}, door=door)
    for name, invitation in invited.items():
        place = folder / name
        write_device(place, plan.nodes[name], plan.catalogue.item_ids, settings, plan.policy)
        _admit(settings, invitation, place)
        with (place / "device.toml").open("a") as config:
            config.write(toml(plan.trusted))  # the section [boards] comes last
    return settings


def invite(
    settings: FleetSettings, users: Mapping[str, int], *, door: int | None = None
) -> dict[str, Invitation]:
    """One invitation for each name, as ``fedboard fleet invite`` makes them."""
    introduction = digest_of_introduction(introduction_of(settings))
    address = settings.network.reached if door is None else Address("127.0.0.1", door)
    made = {}
    with Register(StateFolder.of(settings).members) as register:
        for name, most in users.items():
            made[name] = Invitation(address=address, introduction=introduction, secret=fresh_secret())
            register.invite(made[name].secret, name=name, max_users=most, seconds=_INVITED_SECONDS)
    return made


def write_device(
    folder: Path,
    ratings: Cohort,
    item_ids: Sequence[str],
    settings: FleetSettings,
    policy: Mapping[str, Any] | None = None,
) -> None:
    """A device with its ratings and policy, which has no server yet; one person's ratings are in a store."""
    make_private_folder(folder)
    if ratings.n_users == 1:
        where = {"store": "ratings.sqlite"}
        with RatingStore.create(folder / "ratings.sqlite") as store:
            given = zip(ratings.items.tolist(), ratings.ratings.tolist(), strict=True)
            store.put(OwnRating(item=item_ids[item], rating=rating) for item, rating in given)
    else:
        where = {"cohort": "cohort"}
        write_cohort(folder / "cohort", ratings, tuple(item_ids))
    promise = settings.promise
    limit = {"epsilon": 1.2 * promise.epsilon, "delta": promise.delta, "seeded_noise": settings.simulated}
    config = toml({"ratings": where, "policy": {**limit, **(policy or {})}})
    (folder / "device.toml").write_text(config)


def _admit(settings: FleetSettings, invitation: Invitation, folder: Path) -> None:
    """Make a member of a device without a server: by what the server would do."""
    content, register = introduction_of(settings), StateFolder.of(settings).members
    enrolment = Enrolment(introduction=content, register=register, capacity=settings.capacity)
    opened = Introduction.open(content, digest=invitation.introduction)
    become_member(invitation, opened, folder, ask=lambda one: enrolment.admit(one.SerializeToString()))


def joined(url: str, token: str, folder: Path) -> float:
    """Let a device join over the port; seconds that it took."""
    began = time.monotonic()
    join(Invitation.parse(url, token), folder)
    return time.monotonic() - began


def toml(sections: Mapping[str, Any]) -> str:
    """Sections as TOML; empty ones are left out."""
    return "".join(f"{name} = {toml_value(value)}\n" for name, value in sections.items() if value != {})


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

    @property
    def port(self) -> int:
        """Of the server."""
        return self.settings.network.reached.port

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
