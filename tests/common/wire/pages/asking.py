"""Requests to a live page as anybody can write them, and the events that come back."""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit


class Told:
    """A source whose state a test sets."""

    policy = "default-src 'none'; style-src 'sha256-abc'"

    def __init__(self, **state: Any) -> None:
        self.state: dict[str, Any] = state
        self.reads = 0

    def signature(self) -> object:
        return json.dumps(self.state)

    def page(self) -> str:
        self.reads += 1
        return json.dumps(self.state)


def asked(
    address: str, path: str | None = None, *, method: str = "GET", **headers: str
) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and content; ``Host`` is the address's own unless it is given."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, parts.path if path is None else path, headers=given)
    answer = connection.getresponse()
    whole = answer.headers["Content-Length"] is not None
    found = (
        answer.status,
        dict(answer.headers),
        answer.read() if whole else answer.read1(),
    )  # events never end
    connection.close()
    return found


@contextmanager
def listening(address: str, **headers: str) -> Iterator[Iterator[tuple[str, str]]]:
    """Kind and data of each event as it comes."""
    parts = urlsplit(address)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as line:
        told = "".join(f"{name}: {value}\r\n" for name, value in {"Host": parts.netloc, **headers}.items())
        line.sendall(f"GET {parts.path}events HTTP/1.1\r\n{told}\r\n".encode())
        with line.makefile("r", encoding="utf-8", newline="") as stream:
            yield _events(stream)


def pages(events: Iterator[tuple[str, str]]) -> Iterator[str]:
    """The pages alone."""
    return (json.loads(data) for kind, data in events if kind == "page")


def states(events: Iterator[tuple[str, str]]) -> Iterator[Any]:
    """What is in the pages of ``Told``."""
    return (json.loads(page) for page in pages(events))


def _events(stream: Any) -> Iterator[tuple[str, str]]:
    kind = ""
    for line in stream:
        name, _, value = line.rstrip("\r\n").partition(": ")
        if name == "event":
            kind = value
        elif name.startswith("data"):
            yield kind, value
