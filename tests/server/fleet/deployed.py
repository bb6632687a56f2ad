"""A whole fleet as real processes on 127.0.0.1, for tests: server and four devices over TLS."""

import contextlib
import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedboard.client.ratings.cohort_file import write_cohort
from fedboard.common.board import Board
from fedboard.common.cohort import cohort_from_triples
from fedboard.common.keys.node_keys import make_node_key
from fedboard.common.keys.roster import IdentityKey, RosterAuthority
from fedboard.common.wire.signing import QuestionKey
from fedboard.server.fleet.plan.settings import FleetSettings, read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.rounds.round_log import RoundLog
from fedboard.server.publishing.signing import create_board_keys
from tests.ports import free_ports
from tests.server.vouched import vouched_pair

NODES = ("a", "b", "c", "d")
DIRECT = "b"
"""Comes to the door without Flower; the others are carried by it."""
ROUNDS = 2
_USERS, _ITEMS, _RATED = 40, 60, 12
_TASK = f'algorithm = "adadpals", settings = {{ rank = 2, rounds = {ROUNDS} }}'
_FLEET = """\
name = "trial"
task = {{ rating_range = [1.0, 5.0], {task} }}
privacy = {{ epsilon = 5.0, noise = "seeded" }}
catalogue = {{ file = "catalogue.csv" }}
protocol = {{ name = "{protocol}", step_seconds = 10{listed} }}
rounds = {{ expected_nodes = 4, quorum = 3, deadline_seconds = 30, grace_seconds = 1, resend_seconds = 10, \
poll_seconds = 0.2 }}
nodes = [{nodes}]

[network]
listen = "127.0.0.1"
port = {port}
superlink_port = {superlink_port}
certificate = "server.pem"
key = "server.key"
authority = "authority.pem"
question_key = "question-signing.key"

[board]
enabled = true
listen = "127.0.0.1"
port = {board_port}
metrics_port = {metrics_port}
signing_key = "board-signing.key"
simulation = true

[questions]
epsilon = 5.5
"""
_DEVICE = """\
ratings = {{ cohort = "cohort" }}
policy = {{ epsilon = 6.0, delta = 1e-5, seeded_noise = true, questions = ["mean of ratings", "* of counts"]\
{believes} }}

[server]
address = "127.0.0.1:{port}"
ca_certificate = "../authority.pem"
node_key = "node.key"
question_key = "../question-signing.pub"
poll_seconds = 0.5
{carrier}
{identity}
"""


class Fleet:
    """The processes, by name; ``server`` is one of them."""

    def __init__(
        self,
        folder: Path,
        *,
        protocol: str = "secure-sum",
        vouched: bool = False,
        task: str = _TASK,
        environment: Mapping[str, str] | None = None,
        more: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Make keys, ratings and configurations; ``environment`` is added to that of all processes, and to the
        command of a process what ``more`` has under its name. Where devices are vouched for, each has an identity
        on a list.
        """
        self.folder, self._environment, self._more = folder, environment or {}, more or {}
        self.settings = _make(folder, protocol, task, vouched)
        self.state = StateFolder.of(self.settings)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start the server or a device, with a log of its own."""
        config = self.folder / ("fleet.toml" if name == "server" else f"{name}/device.toml")
        command = [sys.executable, "-c", "from fedboard.cli.main import main; main()"]
        words = ["server" if name == "server" else "client", "--config", str(config)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*command, *words, *self._more.get(name, ())],
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "PYTHONUNBUFFERED": "1",
                    "OPENBLAS_NUM_THREADS": "1",
                    **self._environment,
                },
            )

    def end(self, name: str, number: signal.Signals) -> int:
        """Send a signal and wait for the end; its exit status."""
        return self.end_all([name], number)[0]

    def end_all(self, names: Sequence[str], number: signal.Signals) -> list[int]:
        """Send a signal to these and wait for the end of all; their exit status."""
        processes = [self._processes.pop(name) for name in names]
        for process in processes:
            process.send_signal(number)
        return [process.wait(60) for process in processes]

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process that goes on."""
        self._processes[name].send_signal(number)

    def kill_superlink(self) -> None:
        """Kill the server's SuperLink, whose process id its log tells."""
        lines = self.log("server").splitlines()
        started = [line for line in lines if "superlink started" in line]
        os.kill(int(started[-1].rpartition(" ")[2]), signal.SIGKILL)

    def log(self, name: str) -> str:
        """What a process has said."""
        return (self.folder / f"{name}.log").read_text()

    @property
    def rounds(self) -> list[int]:
        """Numbers of the finished rounds."""
        return [line["round"] for line in RoundLog(self.state.run / "rounds.jsonl").lines()]

    def boards(self) -> list[Board]:
        """What was published."""
        return [Board.load(path) for path in sorted((self.state.run / "boards").glob("board-*.board"))]

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 240.0) -> None:
        """Wait, or fail with all logs."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                logs = [f"--- {path}\n{path.read_text()}" for path in sorted(self.folder.rglob("*.log"))]
                raise AssertionError(f"no {what}\n" + "\n".join(logs))
            time.sleep(0.05)


@contextlib.contextmanager
def deployed(
    folder: Path, *, before: Callable[[Fleet], None] = lambda fleet: None, **how: Any
) -> Iterator[Fleet]:
    """A fleet that is gone afterwards, whatever happens; ``before`` is done before anything is started."""
    fleet = Fleet(folder, **how)
    before(fleet)
    try:
        for name in ("server", *NODES):
            fleet.start(name)
        yield fleet
    finally:
        fleet.end_all(list(fleet._processes), signal.SIGTERM)


def _make(folder: Path, protocol: str, task: str, vouched: bool) -> FleetSettings:
    vouched_pair(folder)
    ids = tuple(f"i{number}" for number in range(_ITEMS))
    with (folder / "catalogue.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("item", "title"), *((item, f"Film {item}") for item in ids)])
    create_board_keys(folder)
    QuestionKey().write(folder)
    authority = RosterAuthority()
    if vouched:
        list_devices(folder, authority)
    port, superlink_port, board_port, metrics_port = free_ports(4)
    for number, name in enumerate(NODES):
        make_node_key(folder / name / "node.key", name=name)
        _ratings(folder / name / "cohort", ids, first_row=number * _USERS)
        (folder / name / "device.toml").write_text(
            _DEVICE.format(
                port=port,
                carrier='carrier = "direct"' if name == DIRECT else "",
                believes=f', vouched_by = "{authority.public.hex()}"' if vouched else "",
                identity='identity_key = "identity.key"' if vouched else "",
            )
        )
    nodes = ", ".join(
        f'{{ name = "{name}", public_key = "{name}/node.pub", max_users = {_USERS} }}' for name in NODES
    )
    settings = f', settings = {{ vouched_by = "{authority.public.hex()}" }}, roster = "roster"'
    text = _FLEET.format(
        listed=settings if vouched else "",
        protocol=protocol,
        task=task,
        nodes=nodes,
        port=port,
        superlink_port=superlink_port,
        board_port=board_port,
        metrics_port=metrics_port,
    )
    (folder / "fleet.toml").write_text(text)
    return read_settings(folder / "fleet.toml")


def list_devices(folder: Path, authority: RosterAuthority) -> None:
    """An identity for each device, and the list of them."""
    identities = {name: IdentityKey() for name in NODES}
    for name, identity in identities.items():
        identity.write(folder / name)
    keys = [identity.public for identity in identities.values()]
    signed = authority.sign(keys, fleet="trial", number=1, seconds=86_400)
    (folder / "roster").write_bytes(signed.content)


def _ratings(folder: Path, ids: tuple[str, ...], *, first_row: int) -> None:
    random = np.random.default_rng(first_row)
    items = np.concatenate([random.choice(_ITEMS, _RATED, replace=False) for _ in range(_USERS)])
    users = np.repeat(np.arange(_USERS), _RATED)
    ratings = random.integers(1, 6, users.size).astype(np.float32)
    cohort = cohort_from_triples(users, items, ratings, n_users=_USERS, n_items=_ITEMS)
    write_cohort(folder, replace(cohort, first_row=first_row), ids)
