"""The fleet of a soak: server, gateways, devices that join, witnesses; each with a disk and a clock of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedboard.client.ratings.cohort_file import write_cohort
from fedboard.common.boards.log.note_keys import read_verifier
from fedboard.common.boards.log.notes import Kind
from fedboard.common.boards.log.policy import Witness, most_of
from fedboard.server.fleet.plan.settings import read_settings
from fedboard.server.tls import make_server_certificate
from fleets.deployment import FEDBOARD, Deployment, free_ports, make_fleet, toml
from fleets.soak.clocks import Clocks
from fleets.soak.disks import Disk
from fleets.soak.people import GATEWAYS, KEPT_HOURS, MOST_JOINED, POLICY, USERS, fleet_plan, people

HERE = Path(__file__).parent
HOLDERS = ("alice", "bob", "carol")
WITNESSES = ("w0", "w1", "w2")
MANIFEST_DAYS = 2.0
"""So that signatures are renewed every simulated day."""
_SERVER_MEGABYTES, _DEVICE_MEGABYTES = 96, 16
_PATIENCE_SECONDS, _AGAIN_SECONDS = 60.0, 8.0
"""A server looks at ten requests to join a minute from one address."""


@dataclass
class WeekFleet:
    """Files and processes; ``server``, devices by name, witnesses by name."""

    folder: Path
    rounds: int
    clocks: Clocks
    faults: str = ""
    disks: dict[str, Disk] = field(default_factory=dict)
    """By machine: ``server``, a device, a witness."""
    joined: list[str] = field(default_factory=list)
    """Devices that joined by invitation, ever."""
    removed: list[str] = field(default_factory=list)
    invited: int = 0
    """Who was, whether she joined or not."""
    starts: int = 0
    """Of processes."""

    def __post_init__(self) -> None:
        """Make all files; nothing runs yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.notes = self.folder / "log.jsonl"
        self._people = people()
        self.disks["server"] = Disk(self.folder / "state", megabytes=_SERVER_MEGABYTES)
        self.disks["log"] = Disk(self.folder / "board-log", megabytes=_DEVICE_MEGABYTES)
        for name in (*GATEWAYS, *WITNESSES):
            self.disks[name] = Disk(self.folder / name, megabytes=_DEVICE_MEGABYTES)
        self.board_port, self.metrics_port, *self._witness_ports = free_ports(2 + len(WITNESSES))
        ratings = [self._ratings(number) for number in range(len(GATEWAYS))]
        settings = make_fleet(self.folder, fleet_plan(self.rounds, ratings, self._people.catalogue))
        self.door = settings.network.port
        self._make_roots()
        self._make_witnesses()
        self._extend()
        self.fleet = Deployment(self.folder, read_settings(self.config))

    @property
    def config(self) -> Path:
        """Settings of the server."""
        return self.folder / "fleet.toml"

    @property
    def pinned(self) -> Path:
        """What readers have pinned."""
        return self.folder / "1.root.json"

    @property
    def policy(self) -> Path:
        """What readers ask of witnesses."""
        return self.folder / POLICY

    @property
    def members(self) -> tuple[str, ...]:
        """Devices that may take part."""
        return (*GATEWAYS, *(name for name in self.joined if name not in self.removed))

    def _ratings(self, number: int) -> Any:
        return self._people.train.rows(number * USERS, (number + 1) * USERS)

    def fedboard(self, *words: object, refused: bool = False) -> str:
        """A command of the operator, or of a person; what it said."""
        environment = {**os.environ, **self.clocks.environment("people")}
        command = [*FEDBOARD, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if (done.returncode != 0) != refused:
            raise RuntimeError(
                f"fedboard {' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done.stdout + done.stderr

    def _make_roots(self) -> None:
        """Three holders, two of whom must sign; the files of the holders are theirs, the server gets copies."""
        drafts, keys = self.folder / "holders" / "roots", self.folder / "holders"
        for name in HOLDERS:
            self.fedboard("keys", "holder", name, "--out", keys)
        self.fedboard("keys", "board", "--out", self.folder)
        holders = [word for name in HOLDERS for word in ("--holder", keys / f"{name}.pub")]
        signing = [word for name in HOLDERS[:2] for word in ("--sign", keys / f"{name}.key")]
        self.fedboard(
            *(
                "keys",
                "root",
                drafts,
                *holders,
                "--threshold",
                2,
                "--board-key",
                self.folder / "board-signing.pub",
            ),
            *("--question-key", self.folder / "question-signing.pub", *signing),
        )
        shutil.copytree(drafts, self.folder / "roots")
        shutil.copy(drafts / "1.root.json", self.pinned)

    def _make_witnesses(self) -> None:
        self.fedboard("keys", "log", "--name", "boards.example/trial", "--out", self.folder / "board-log")
        named = []
        for name, port in zip(WITNESSES, self._witness_ports, strict=True):
            self.fedboard("keys", "witness", "--name", f"{name}.example/boards", "--out", self.folder / name)
            key = read_verifier(str(self.folder / name / "witness.pub"), kind=Kind.COSIGNATURE)
            named.append(Witness(name, key, f"https://127.0.0.1:{port}"))
            authority, authority_key = self.folder / "authority.pem", self.folder / "authority.key"
            certificate, tls = self.folder / name / "tls.pem", self.folder / name / "tls.key"
            make_server_certificate(
                certificate, tls, authority=authority, authority_key=authority_key, names=()
            )
        log = read_verifier(str(self.folder / "board-log" / "board-log.pub"), kind=Kind.NOTE)
        self.policy.write_text(most_of(log, tuple(named), least=2).text)

    def _extend(self) -> None:
        """The settings with boards, log, witnesses, roots and enrolment; gateways that rely on the witnesses."""
        board = {
            "enabled": True,
            "listen": "127.0.0.1",
            "port": self.board_port,
            "metrics_port": self.metrics_port,
            "signing_key": "board-signing.key",
            "roots": "roots",
            "manifest_days": MANIFEST_DAYS,
            "log": "board-log",
            "witnesses": POLICY,
        }
        enrolment = {
            "address": f"127.0.0.1:{self.door}",
            "max_devices": MOST_JOINED,
            "max_users_per_device": USERS,
            "max_users": USERS * MOST_JOINED,
        }
        listed, expected = f"expected_nodes = {len(GATEWAYS)}", len(GATEWAYS) + MOST_JOINED
        text = self.config.read_text().replace(listed, f"expected_nodes = {expected}")
        self.config.write_text(text + toml({"board": board, "enrolment": enrolment}))
        source = {"source": f"127.0.0.1:{self.board_port}", "public_key": "../1.root.json"}
        for name in GATEWAYS:
            path = self.folder / name / "device.toml"
            text = path.read_text().replace("../question-signing.pub", "../1.root.json")
            path.write_text(text + toml({"board": source}))

    def join(self) -> str:
        """Invite somebody, who joins and begins to answer; her name."""
        name = f"j{self.invited}"
        self.invited += 1
        folder, invitation = self.folder / name, self.folder / f"{name}.invite"
        self.disks[name] = Disk(folder, megabytes=_DEVICE_MEGABYTES)
        write_cohort(
            folder / "cohort",
            self._ratings(len(GATEWAYS) + len(self.joined)),
            self._people.catalogue.item_ids,
        )
        policy = {
            "epsilon": 6.0,
            "delta": 1e-5,
            "witnesses": f"../{POLICY}",
            "answers_kept_hours": KEPT_HOURS,
        }
        (folder / "device.toml").write_text(toml({"ratings": {"cohort": "cohort"}, "policy": policy}))
        words = ("--config", self.config, "--users", USERS, "--out", invitation)
        self.fedboard("fleet", "invite", name, *words)
        self._patiently("client", "join", "--invitation", invitation, "--out", folder)
        path = folder / "device.toml"
        path.write_text(path.read_text().replace("poll_seconds = 5.0", "poll_seconds = 1.0"))
        self.joined.append(name)
        self.start(name)
        return name

    def _patiently(self, *words: object) -> None:
        """A command of somebody who tries again where the server is away, or busy."""
        until, told = time.monotonic() + _PATIENCE_SECONDS, list[str]()
        while True:
            try:
                self.fedboard(*words)
                return
            except RuntimeError as error:
                told.append(str(error).splitlines()[-1])
                if time.monotonic() > until:
                    raise RuntimeError("\n".join(dict.fromkeys(told))) from error
                time.sleep(_AGAIN_SECONDS)

    def start(self, name: str, **more: str) -> None:
        """Start the server, a device or a witness."""
        self.starts += 1
        environment = {**self.clocks.environment(self.machine(name)), **more}
        if name in WITNESSES:
            self._start_witness(name, environment)
            return
        who = "server" if name == "server" else f"client-{name}"
        paths = [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
        self.fleet.start(
            name,
            (sys.executable, str(HERE / "part.py")),
            stays=True,
            CHAOS_FOLDER=str(self.folder),
            CHAOS_WHO=who,
            PYTHONPATH=os.pathsep.join(paths),
            SSL_CERT_FILE=str(self.folder / "authority.pem"),
            SOAK_FAULTS=self.faults,
            **environment,
        )

    def machine(self, name: str) -> str:
        """Whose clock and disk a process has."""
        return "witnesses" if name in WITNESSES else name

    def _start_witness(self, name: str, environment: dict[str, str]) -> None:
        folder, port = self.folder / name, self._witness_ports[WITNESSES.index(name)]
        words = ["--key", folder / "witness.key", "--log", self.folder / "board-log" / "board-log.pub"]
        words += ["--state", folder / "state", "--port", port]
        words += ["--certificate", folder / "tls.pem", "--private-key", folder / "tls.key"]
        self.fleet.start_command(name, [*FEDBOARD, "witness", *map(str, words)], **environment)

    def rotated(self, *words: object) -> None:
        """The next root, signed by two holders where they are, then given to the server."""
        drafts, keys = self.folder / "holders" / "roots", self.folder / "holders"
        self.fedboard("keys", "rotate", drafts, *words, "--sign", keys / "alice.key")
        newest = max(drafts.glob("*.root.json"), key=lambda path: int(path.name.partition(".")[0]))
        self.fedboard("keys", "sign", newest, "--key", keys / "bob.key")
        put(newest, self.folder / "roots" / newest.name)

    def lines(self) -> list[dict[str, Any]]:
        """The rounds so far; none where the disk's log cannot be read just now."""
        try:
            return self.fleet.log.lines()
        except (OSError, ValueError):
            return []

    def made(self) -> int:
        """Rounds so far."""
        lines = self.lines()
        return int(lines[-1]["round"]) + 1 if lines else 0

    def kill(self, name: str) -> None:
        """``kill -9``."""
        self.fleet.end(name, signal.SIGKILL)

    def order(self, who: str, step: str, steps: int) -> None:
        """Have a part end itself at a step, see ``chaos/part.py``."""
        (self.folder / f"die-{who}").write_text(json.dumps({"steps": steps, "at": step}))

    def wait_for_rounds(self, number: int, *, seconds: float) -> bool:
        """Until so many more were made; False where they were not."""
        until, wanted = time.monotonic() + seconds, self.made() + number
        while self.made() < wanted:
            if time.monotonic() > until:
                return False
            time.sleep(0.2)
        return True

    def close(self) -> None:
        """End what was started, and let go of the disks."""
        for disk in self.disks.values():
            disk.free()
        self.fleet.look()
        self.fleet.stop()


def put(source: Path, target: Path) -> None:
    """Copy a file into place in one step."""
    part = target.with_suffix(".part")
    shutil.copy(source, part)
    os.replace(part, target)
