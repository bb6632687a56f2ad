"""Requests to a live page as anybody can write them."""

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit


class Told:
    """A source whose state a test sets."""

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
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)) as connection:
        connection.request(method, parts.path if path is None else path, headers=given)
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read()


def pages(address: str) -> Iterator[str]:
    """Each page as it comes, as one that asks again and again gets it; ends with the server."""
    tag, ends = "", time.monotonic() + 60
    while time.monotonic() < ends:
        try:
            status, headers, content = asked(address, If_None_Match=tag)
        except (ConnectionError, http.client.HTTPException):
            return
        if status == 200:
            tag = headers["ETag"]
            yield content.decode()
        time.sleep(0.05)


def states(address: str) -> Iterator[Any]:
    """What is in the pages of ``Told``."""
    return (json.loads(page) for page in pages(address))
