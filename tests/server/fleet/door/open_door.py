"""The door as the process that it is, over TLS on 127.0.0.1, with nothing behind it but the line."""

import http.client
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from fedboard.client.node.connection import DirectConnection, DoorError
from fedboard.common.keys.node_keys import load_private_key, make_node_key
from fedboard.common.wire import direct as wire
from fedboard.common.wire.signing import QuestionKey
from fedboard.server.fleet.line.asking import Asking, Line
from fedboard.server.fleet.line.messages import LineError
from fedboard.server.fleet.members.register import Register
from fedboard.server.fleet.plan.preparing import keep_register
from fedboard.server.fleet.plan.settings import read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.proxy_process import proxy_command
from tests.ports import free_ports
from tests.server.vouched import vouched_pair

_FLEET = """\
name = "trial"
privacy = {{ epsilon = 5.0 }}
catalogue = {{ file = "catalogue.csv" }}
rounds = {{ expected_nodes = 1, quorum = 1 }}
nodes = [{nodes}]

[network]
listen = "127.0.0.1"
port = {port}
superlink_port = {superlink_port}
certificate = "server.pem"
key = "server.key"
authority = "authority.pem"
question_key = "question-signing.key"
polls_per_second = {polls}
max_requests_per_minute = {requests}
"""
LARGEST = 1000
"""Bytes of an answer."""


class OpenDoor:
    """The process, and both sides of it."""

    def __init__(
        self,
        folder: Path,
        *,
        members: tuple[str, ...],
        max_users: int = 1,
        requests: int = 600,
        polls: float = 0.5,
    ) -> None:
        """Make keys and settings; ``eve`` has a key that nobody lists."""
        self.folder = folder
        vouched_pair(folder)
        QuestionKey().write(folder)
        for name in (*members, "eve"):
            make_node_key(folder / name / "node.key", name=name)
        nodes = ", ".join(
            f'{{ name = "{name}", public_key = "{name}/node.pub", max_users = {max_users} }}'
            for name in members
        )
        self.port, behind = free_ports(2)
        text = _FLEET.format(
            nodes=nodes, port=self.port, superlink_port=behind, requests=requests, polls=polls
        )
        (folder / "fleet.toml").write_text(text)
        settings = read_settings(folder / "fleet.toml")
        self.state = StateFolder.of(settings)
        self.state.make()
        keep_register(settings)
        self.pem = {node.name: key for key, node in settings.public_keys.items()}  # as the register has them
        self.line = Line(self.state.line)
        self._devices: list[DirectConnection] = []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until it answers on the line."""
        self._process = subprocess.Popen(proxy_command(self.folder / "fleet.toml"), stdin=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(LineError, OSError):
                self.line.present()
                with self.tls():
                    return
            time.sleep(0.02)
        raise AssertionError("the door did not open")

    def kill(self) -> None:
        """As if the machine had."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()

    def key(self, name: str) -> ec.EllipticCurvePrivateKey:
        return load_private_key(self.folder / name / "node.key")

    def device(self, name: str, *, clock: Callable[[], float] = time.time) -> DirectConnection:
        """A device of this key."""
        made = DirectConnection(
            address=f"127.0.0.1:{self.port}",
            root_certificate=(self.folder / "authority.pem").read_text(),
            private_key=self.key(name),
            largest=1 << 20,
            poll_seconds=0.0,
            clock=clock,
        )
        self._devices.append(made)
        return made

    def close_devices(self) -> None:
        """Of all so far."""
        for made in self._devices:
            made.close()

    def ask(
        self, *names: str, frame: bytes = b"what?", beside: bytes | None = None, seconds: float = 60
    ) -> Asking:
        """Have these devices asked, in a question of its own."""
        asking = self.line.asking()
        self.ask_again(asking, *names, frame=frame, beside=beside, seconds=seconds)
        return asking

    def ask_again(
        self,
        asking: Asking,
        *names: str,
        frame: bytes = b"what?",
        beside: bytes | None = None,
        seconds: float = 60,
    ) -> None:
        frames = {self.pem[name]: frame for name in names}
        asking.ask(frames, beside=beside, kind="query.round", largest=LARGEST, seconds=seconds)

    def request(self, name: str, path: str, *, work: str, length: int) -> bytes:
        """The head of a request whose body is to be so long."""
        sender = wire.Sender(private_key=self.key(name), public_key=self.pem[name].encode())
        headers = sender.headers(path, b"", micros=int(time.time() * 1_000_000), work=work)
        lines = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
        return f"POST {path} HTTP/1.1\r\nHost: door\r\nContent-Length: {length}\r\n{lines}\r\n".encode()

    def tls(self) -> ssl.SSLSocket:
        """A connection of anybody."""
        context = ssl.create_default_context(cafile=str(self.folder / "authority.pem"))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=context)
        connection.connect()
        assert isinstance(connection.sock, ssl.SSLSocket)
        return connection.sock

    def said(self, *requests: bytes) -> list[int]:
        """Statuses of what is sent as it is over one connection."""
        with self.tls() as sock:
            found = []
            for request in requests:
                sock.sendall(request)
                response = http.client.HTTPResponse(sock)
                response.begin()
                response.read()
                found.append(response.status)
            return found

    def remove(self, name: str) -> None:
        with Register(self.state.members) as register:
            register.remove(name)


@contextmanager
def open_door(folder: Path, **of_fleet: object) -> Iterator[OpenDoor]:
    """A door that is closed afterwards."""
    door = OpenDoor(folder, **of_fleet)  # type: ignore[arg-type]
    door.start()
    try:
        yield door
    finally:
        door.close_devices()
        door.line.close()
        door.kill()


def status_of(act: Callable[[], object]) -> int:
    """Of the refusal that this meets; 200 for none."""
    try:
        act()
    except DoorError as error:
        return error.status
    return 200
