"""Readers of a board service who take nothing: what is left for others while they are there.

usage: python benchmarks/fleets/hostile_readers.py [--downloads 1000] [--connections 1100] [--json FILE]

A service as ``fedboard board serve`` starts it, with the file descriptors that most systems give (a soft limit of
1 024), and two attacks from 127.0.0.1, one after the other: as many downloads of which nothing is read, over ten
connections; as many connections over which nothing is sent. Meanwhile readers at 127.0.0.1 and at 127.0.0.2 ask for
the newest board and download one, each over a connection of its own; how many get it, and in how many seconds.
"""

import argparse
import hashlib
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from fedboard.common.boards.board_signature import SignedManifest
from fedboard.common.boards.boards_pb2 import GetRequest, LatestRequest, Part
from fedboard.common.boards.layout import LATEST as LATEST_NAME
from fedboard.common.boards.layout import manifest_name
from fedboard.common.boards.manifest import BoardFile, Encoding, Manifest
from fedboard.common.boards.methods import GET, LATEST, method
from fedboard.common.protection import Protection
from fedboard.server.publishing.mirror import Mirror

SOFT_LIMIT = 1024
FILE_BYTES = 5_000_000
TRIES, SECONDS = 5, 10.0
OPTIONS = [
    ("grpc.max_receive_message_length", 1 << 24),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.use_local_subchannel_pool", 1),
]


def make_mirror(folder: Path) -> Path:
    """One file of any content: the service hands out what its owner put there, and readers would verify it."""
    content = np.random.default_rng(0).bytes(FILE_BYTES)
    digest = hashlib.sha256(content).hexdigest()
    file = BoardFile(
        encoding=Encoding.EXACT,
        size=len(content),
        sha256=digest,
        board_size=len(content),
        board_sha256=digest,
        board_digest=digest,
    )
    manifest = Manifest(
        run="hostile",
        version=1,
        board_digest=digest,
        previous_digest=None,
        certificate_digest=None,
        protection=Protection.PRIVATE,
        published="2026-01-01T00:00:00Z",
        key_id="0" * 16,
        files=(file,),
    )
    mirror = Mirror(folder / "mirror")
    signed = SignedManifest(content=manifest.to_bytes().decode(), signature="00" * 64).to_bytes()
    places = {mirror.file(digest): content}
    places |= {mirror.folder / name: signed for name in (manifest_name(1), LATEST_NAME)}
    for place, bytes_ in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(bytes_)
    return mirror.folder


@contextmanager
def service(mirror: Path) -> Iterator[int]:
    """``fedboard board serve``; the port. A process of its own, with few descriptors to begin with."""

    def few() -> None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT_LIMIT, hard))

    words = ["board", "serve", str(mirror), "--no-tls", "--address", "127.0.0.1:0"]
    command = [
        sys.executable,
        "-uc",
        "import sys\nfrom fedboard.cli.main import main\nsys.exit(main())",
        *words,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=few
    ) as p:
        try:
            assert p.stdout is not None
            yield int(p.stdout.readline().split("port ")[1].split(";")[0])
        finally:
            p.terminate()
            p.wait()


@contextmanager
def reached_from(address: str, port: int) -> Iterator[int]:
    """A port whose connections go on to the service and seem to come from another address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def pump(one: socket.socket, other: socket.socket) -> None:
            with suppress(OSError):
                while data := one.recv(1 << 16):
                    other.sendall(data)
                other.shutdown(socket.SHUT_RDWR)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    near, _ = listening.accept()
                    far = socket.create_connection(("127.0.0.1", port), source_address=(address, 0))
                    for ends in ((near, far), (far, near)):
                        threading.Thread(target=pump, args=ends, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]


def read_once(port: int) -> int:
    """Bytes of the newest board; over a connection of its own."""
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        latest = channel.unary_unary(method(LATEST), LatestRequest.SerializeToString, lambda content: content)
        latest(LatestRequest(), timeout=SECONDS)
        get = channel.unary_stream(method(GET), GetRequest.SerializeToString, Part.FromString)
        return sum(len(part.chunk) for part in get(GetRequest(encoding="exact"), timeout=SECONDS))


def readers(port: int) -> dict[str, Any]:
    """How readers at both addresses fare."""
    found = {}
    for address in ("127.0.0.1", "127.0.0.2"):
        served, seconds, refused = 0, [], list[str]()
        with reached_from(address, port) as place:
            for _ in range(TRIES):
                began = time.monotonic()
                try:
                    served += read_once(place) > 1_000_000
                    seconds.append(round(time.monotonic() - began, 2))
                except grpc.RpcError as error:
                    refused.append(str(error.code().name))
        found[address] = {"served": served, "of": TRIES, "seconds": seconds, "refused": sorted(set(refused))}
    return found


def unread_downloads(port: int, number: int, stack: ExitStack) -> list[Any]:
    channels = [
        stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS)) for _ in range(10)
    ]
    held = []
    for k in range(number):
        call = channels[k % 10].unary_stream(method(GET), GetRequest.SerializeToString, Part.FromString)
        held.append(call(GetRequest(encoding="exact")))
        time.sleep(0.025)  # below the rate limit of one address
    return held


def idle_connections(port: int, number: int, stack: ExitStack) -> int:
    opened = 0
    for _ in range(number):
        with suppress(OSError):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=2.0))
            opened += 1
    return opened


def main() -> int:
    """Measure honest readers alone, beside downloads that nobody reads, and beside idle connections."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--downloads", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=1100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found: dict[str, Any] = {"load": os.getloadavg()}
    with tempfile.TemporaryDirectory() as place:
        mirror = make_mirror(Path(place))
        with service(mirror) as port:
            found["alone"] = readers(port)
        with service(mirror) as port, ExitStack() as stack:
            held = unread_downloads(port, options.downloads, stack)
            found["downloads"] = {"held": len(held), **readers(port)}
            for call in held:
                call.cancel()
        with service(mirror) as port, ExitStack() as stack:
            opened = idle_connections(port, options.connections, stack)
            found["connections"] = {"opened": opened, **readers(port)}
    print(json.dumps(found, indent=1))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
