"""A whole fleet on 127.0.0.1, for tests: the server is a process that speaks TLS, each of four gateways is one."""

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
from fedboard.common.boards.roster import IdentityKey, RosterAuthority
from fedboard.common.cohort import cohort_from_triples
from fedboard.common.messages.devices import DeviceKey
from fedboard.common.messages.enrolment import fresh_secret
from fedboard.server.fleet.register import Register
from fedboard.server.fleet.settings import FleetSettings, read_settings
from fedboard.server.fleet.state_folder import KeysFolder, RoundLog, StateFolder
from tests.ports import free_ports
from tests.server.fleet.made import write_fleet

NODES = ("a", "b", "c", "d")
ROUNDS = 2
USERS = 40
"""Behind each gateway."""
_ITEMS, _RATED = 60, 12
_DEVICE = """\
ratings = {{ cohort = "cohort" }}
policy = {{ epsilon = 6.0, delta = 1e-5, seeded_noise = true, questions = ["mean of ratings", "* of counts"]\
{policy} }}

[server]
address = "{address}"
authority = "../keys/authority.pem"
key = "device.key"
question_key = "../keys/questions.pub"
{identity}
"""


class Fleet:
    """The files, and the processes by name; ``server`` is one of them."""

    def __init__(
        self,
        folder: Path,
        *,
        vouched: bool = False,
        environment: Mapping[str, str] | None = None,
        more: Mapping[str, Sequence[str]] | None = None,
        policy: str = "",
        prelude: str = "",
        **sections: Any,
    ) -> None:
        """Make keys, ratings and configurations; four gateways are members.

        Args:
            folder: of all files.
            vouched: whether each gateway has an identity on a list.
            environment: added to that of all processes.
            more: words for the command of a process, by its name.
            policy: more of each device's.
            prelude: Python that the server runs before anything else.
            sections: of ``fleet.toml``, over those of ``write_fleet``.
        """
        self.folder, self._environment, self._more = folder, environment or {}, more or {}
        self._prelude = prelude
        authority = RosterAuthority()
        if vouched:
            sections["protocol"] = {
                **sections.get("protocol", {}),
                "settings": {"vouched_by": authority.public.hex()},
            }
            policy += f', vouched_by = "{authority.public.hex()}"'
        self._write(sections)
        for number, name in enumerate(NODES):
            self._make_device(name, first_row=number * USERS, policy=policy, vouched=vouched)
        if vouched:
            list_devices(folder, authority)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def _write(self, sections: dict[str, Any]) -> None:
        port, ops = free_ports(2)
        usual: dict[str, Any] = {
            "network": {"address": f"127.0.0.1:{port}", "ops": f"127.0.0.1:{ops}"},
            "members": {"most": len(NODES) + 2, "users": USERS * (len(NODES) + 1)},
            "rounds": {"devices": 4, "quorum": 3, "deadline_seconds": 30.0},
            "queries": {"epsilon": 5.5},
        }
        write_fleet(self.folder, **{**usual, **sections})
        with (self.folder / "catalogue.csv").open("w", newline="") as stream:
            csv.writer(stream).writerows([("item", "title"), *((item, f"Film {item}") for item in _ids())])
        self.state.path.mkdir(mode=0o700)

    def _make_device(self, name: str, *, first_row: int, policy: str, vouched: bool) -> None:
        home, settings = self.folder / name, self.settings
        write_ratings(home / "cohort", first_row=first_row)
        key = DeviceKey()
        key.write(home)
        admit(settings, name, key, users=USERS)
        (home / "device.toml").write_text(
            _DEVICE.format(
                address=settings.network.address,
                policy=policy,
                identity='identity_key = "identity.key"' if vouched else "",
            )
        )

    @property
    def settings(self) -> FleetSettings:
        """As they are in the file now."""
        return read_settings(self.folder / "fleet.toml")

    @property
    def state(self) -> StateFolder:
        """Of the server."""
        return StateFolder.of(self.settings)

    @property
    def keys(self) -> KeysFolder:
        """Of the server."""
        return KeysFolder.of(self.settings)

    def start(self, name: str) -> None:
        """Start the server or a device, with a log of its own."""
        config = self.folder / ("fleet.toml" if name == "server" else f"{name}/device.toml")
        prelude = self._prelude if name == "server" else ""
        command = [sys.executable, "-c", f"{prelude}\nfrom fedboard.cli.main import main; main()"]
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

    def pid(self, name: str) -> int:
        """Of a process."""
        return self._processes[name].pid

    def running(self, name: str) -> bool:
        """Whether it has not ended."""
        return self._processes[name].poll() is None

    def wait_for_end(self, name: str, seconds: float = 120.0) -> None:
        """Wait until a process has ended by itself."""
        try:
            self._processes[name].wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} goes on\n{self.log(name)}") from None

    def end(self, name: str, number: signal.Signals) -> int:
        """Send a signal and wait for the end; its exit status."""
        return self.end_all([name], number)[0]

    def end_all(self, names: Sequence[str], number: signal.Signals) -> list[int]:
        """Send a signal to these and wait for the end of all; their exit status."""
        processes = [self._processes.pop(name) for name in names]
        for process in processes:
            process.send_signal(number)
        return [process.wait(60) for process in processes]

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
        """Wait, or fail with all logs; at once where the server has ended by itself."""
        deadline = time.monotonic() + seconds
        while not condition():
            server = self._processes.get("server")
            if time.monotonic() > deadline or (server is not None and server.poll() is not None):
                logs = [f"--- {path}\n{path.read_text()}" for path in sorted(self.folder.rglob("*.log"))]
                raise AssertionError(f"no {what}\n" + "\n".join(logs))
            time.sleep(0.05)

    def trained(self) -> None:
        """Wait for the end of the training."""
        self.wait(lambda: "the training is complete" in self.log("server"), "complete training")


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


def admit(settings: FleetSettings, name: str, key: DeviceKey, *, users: int = 1) -> None:
    """Make a device a member, as its invitation would."""
    capacity = settings.capacity
    secret = fresh_secret()
    with Register(StateFolder.of(settings).members) as register:
        register.invite(secret, name=name, max_users=users, seconds=60.0)
        register.join(secret, key.public.hex(), capacity=capacity)


def list_devices(folder: Path, authority: RosterAuthority) -> None:
    """An identity for each device, and the list of them."""
    identities = {name: IdentityKey() for name in NODES}
    for name, identity in identities.items():
        identity.write(folder / name)
    keys = [identity.public for identity in identities.values()]
    signed = authority.sign(keys, fleet="trial", number=1, seconds=86_400)
    (folder / "keys" / "roster.json").write_bytes(signed.content)


def _ids() -> tuple[str, ...]:
    return tuple(f"i{number}" for number in range(_ITEMS))


def write_ratings(folder: Path, *, first_row: int) -> None:
    """Of the users of one gateway, at random."""
    random = np.random.default_rng(first_row)
    items = np.concatenate([random.choice(_ITEMS, _RATED, replace=False) for _ in range(USERS)])
    users = np.repeat(np.arange(USERS), _RATED)
    ratings = random.integers(1, 6, users.size).astype(np.float32)
    cohort = cohort_from_triples(users, items, ratings, n_users=USERS, n_items=_ITEMS)
    write_cohort(folder, replace(cohort, first_row=first_row), _ids())
