"""What a message costs a device: a stated multiple of what may be sent, whatever it claims to hold.

Each is read in a process of its own whose memory is looked at; a control reads it as Flower does by itself.
"""

import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from fedboard.client.fleet.bounded_http import bound_responses
from fedboard.common.keys.node_keys import make_node_key
from fedboard.common.wire.refusals import Refusal, RefusedError
from fedboard.server.tls import make_authority

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
MIB = 1 << 20
LARGEST = 64 * MIB
"""Of the device that reads."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("device")
    make_authority(place / "authority.pem", place / "authority.key", name="films")
    make_node_key(place / "node.key", name="ann")
    return place


def measured(folder: Path, *words: object) -> dict[str, Any]:
    module = "tests.client.fleet.hostile_messages"
    command = [sys.executable, "-m", module, *map(str, words), str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_a_part_that_is_named_many_times_is_weighed_before_it_is_put_together(folder: Path) -> None:
    """1 MiB on the wire that becomes 100, or as many as it likes."""
    control = measured(folder, "repeated", "flower", 1, 100)
    assert control["outcome"] == "read"
    assert control["grown"] > 100 * MIB > 90 * control["sent"]

    found = measured(folder, "repeated", "device", 1, 100)

    assert found["outcome"] == "too-large"
    assert found["grown"] < 32 * MIB


def test_the_largest_message_costs_at_most_four_times_its_bytes(folder: Path) -> None:
    """It is read to its end, and refused because nobody who is pinned has signed it."""
    found = measured(folder, "plain", "device", 62, 1)

    assert found["outcome"] == "unsigned"
    assert found["grown"] < 4 * found["sent"] + 64 * MIB


def test_a_message_that_is_too_large_is_not_fetched_to_its_end(folder: Path) -> None:
    found = measured(folder, "plain", "device", 150, 1)

    assert found["outcome"] == "too-large"
    assert found["fetched"] < LARGEST + 4 * 5 * MIB
    assert found["grown"] < 4 * LARGEST


def test_parts_that_no_message_of_ours_has_are_not_read(folder: Path) -> None:
    """Numbers of one byte each, which become objects of Python: 20 times their bytes."""
    found = measured(folder, "config", "device", 8, 1)

    assert found["outcome"] == "malformed"
    assert found["grown"] < 4 * found["sent"] + 32 * MIB


class Hostile(BaseHTTPRequestHandler):
    """A server that answers as its path says."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        getattr(self, self.path.strip("/").replace("-", "_"))()

    def _headers(self, status: int, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def fine(self) -> None:
        self._headers(200, content_length=5)
        self.wfile.write(b"hello")

    def announced(self) -> None:
        self._headers(200, content_length=1 << 40)
        self.wfile.write(b"x")

    def endless(self) -> None:
        self._headers(200, transfer_encoding="chunked")
        while True:
            try:
                self.wfile.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            except OSError:
                return

    def packed(self) -> None:
        content = gzip.compress(bytes(50 * MIB))
        self._headers(200, content_length=len(content), content_encoding="gzip")
        self.wfile.write(content)

    def elsewhere(self) -> None:
        self._headers(307, location="/fine", content_length=0)

    def log_message(self, *said: object) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60.0, trust_env=False) as client:
        bound_responses(client, largest=MIB)
        yield client


def test_a_response_within_the_limit_is_read(address: str, client: httpx.Client) -> None:
    assert client.post(f"{address}/fine").content == b"hello"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("announced", Refusal.TOO_LARGE),
        ("endless", Refusal.TOO_LARGE),
        ("packed", Refusal.MALFORMED),
    ],
)
def test_a_response_that_is_larger_or_may_become_it_is_not_read(
    path: str, code: Refusal, address: str, client: httpx.Client
) -> None:
    with pytest.raises(RefusedError) as refused:
        client.post(f"{address}/{path}")

    assert refused.value.code is code
    assert client.post(f"{address}/fine").content == b"hello"  # the connection is not left half read


def test_a_server_cannot_send_a_node_elsewhere(address: str, client: httpx.Client) -> None:
    assert client.post(f"{address}/elsewhere").status_code == 307
