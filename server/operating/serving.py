"""Serve a page that is written again while it is read; where, by default on this machine alone, and to whom.

A page from anywhere can make its visitor's browser ask 127.0.0.1, and can point a name of its own there (DNS
rebinding). So the Host must be an address of this machine or the name that was given, never another name, and a
request that says it comes from another page gets nothing. No answer carries a CORS header.
"""

import ipaddress
import re
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, Self, TypeAlias

from fedboard.common.errors import InputError
from fedboard.common.messages.addresses import parse_address
from fedboard.server.operating.run_report import LIVE_POLICY, RunReport

LOOPBACK = "127.0.0.1"
USUAL = "usual"
"""What stands for no address, in options whose address may be left out."""
RUN_PORT = 8717
"""Tried first where no address is given, so that a page that is open finds its server again after a restart."""
_HOST = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[^\s:/\[\]@]+))(?::[0-9]{1,5})?")
_NEIGHBOURS = 20
"""Ports after it that are tried next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where to listen."""

    host: str
    """A name or an address; an IPv6 address without brackets."""
    ports: tuple[int, ...]
    """Tried in this order; 0 takes a free one."""

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but this machine can reach it."""
        return self.host == "localhost" or is_loopback(self.host)


def place_of(given: str, *, port: int, name: str = "the address of the live page (--live)") -> Place:
    """Read the address of a live page.

    Args:
        given: HOST:PORT, or ``USUAL`` for this machine and a port near ``port``.
        port: where it is usually served.
        name: of the setting, for errors.

    Raises:
        InputError: not HOST:PORT.
    """
    if given == USUAL:
        return Place(host=LOOPBACK, ports=tuple(range(port, port + _NEIGHBOURS)))
    address = parse_address(given, name=name, listening=True)
    return Place(host=address.host, ports=(address.port,))


def is_loopback(host: str) -> bool:
    """Whether this is an address (not a name) of the machine itself."""
    address = _address(host)
    return address is not None and address.is_loopback


def warning_of(place: Place) -> str | None:
    """What whoever serves the page beyond this machine must know; None on this machine."""
    if place.is_loopback:
        return None
    return (
        f"the live page is served on {place.host}, and everybody who reaches that reads it, without a password "
        "and unencrypted: budget, rounds and boards, and of a simulation its metrics, which are not private. "
        "Answers, refusals and bytes of a fleet are left out: no budget covers them. For yourself alone, leave it "
        f"on {LOOPBACK} and come through an SSH tunnel"
    )


def is_own_host(headers: Sequence[str], *, listening: str) -> bool:
    """Whether the Host of a request is one by which this page may be asked for.

    The port is not looked at: it may be another one behind a tunnel.

    Args:
        headers: every ``Host`` header of the request, as it came.
        listening: the host that the server was told to listen on.
    """
    found = _HOST.fullmatch(headers[0]) if len(headers) == 1 else None
    if found is None:
        return False
    name, address = (found["six"] or found["name"]).lower(), _address(listening)
    if listening == "localhost" or is_loopback(listening) or (address is not None and address.is_unspecified):
        here = name == "localhost" or is_loopback(name)
        return here or (address is not None and address.is_unspecified and _address(name) is not None)
    if address is None:
        return name == listening.lower()
    return _address(name) == address


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


_PAGE = "/"
_HTML, _PLAIN = "text/html; charset=utf-8", "text/plain; charset=utf-8"
_TIMES_A_PAGE, _LONGEST_PAUSE = 400, 10.0
"""A page is written again after so many times the CPU that it took, and after so many seconds at most: changes that
follow each other at once are told together, and readers cost a quarter of a percent of one processor at most.
"""
_SLOW_SECONDS = 10.0
"""For a request to come in whole."""
_TICK_SECONDS = 0.2
_LAST_WORDS_SECONDS, _READS_SECONDS = 1.5, 3.0
"""A page asks each second: so long its last state is there for those who asked so short ago."""
_MOST_CONNECTIONS = 32
_NOTHING = "default-src 'none'"
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What another place than the page answers."""

    kind: str
    """Content-Type."""
    content: bytes
    status: int = 200


Places: TypeAlias = Mapping[str, Callable[[], Answer]]
"""Path to what is answered there, afresh on each request."""


class Newest:
    """The newest page, written where somebody asks for it, once for all of them."""

    def __init__(self, report: RunReport) -> None:
        """Look at nothing yet."""
        self._report, self._lock = report, threading.Lock()
        self._seen: object = None
        self._rested = self._asked = 0.0
        self._number, self._page = 0, ""
        self._life = secrets.token_hex(8)

    def look(self) -> tuple[str, str]:
        """The page and its tag, which is another one where the page is, and for another server."""
        with self._lock:
            self._asked = time.monotonic()
            if self._asked >= self._rested:
                self._write()
            return f'"{self._life}-{self._number}"', self._page

    def end(self) -> bool:
        """Write the last page, however short ago one was written; whether somebody reads it."""
        with self._lock:
            if time.monotonic() - self._asked > _READS_SECONDS:
                return False
            self._write()
            return True

    def _write(self) -> None:
        seen = self._report.signature()  # before reading: what changes meanwhile is seen next time
        if self._page and seen == self._seen:
            return
        self._seen, began = seen, time.thread_time()
        page = self._report.page()
        if page != self._page:
            self._number, self._page = self._number + 1, page
        self._rested = time.monotonic() + min(_TIMES_A_PAGE * (time.thread_time() - began), _LONGEST_PAUSE)


class PageServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A page on one address, and what else is named, until the block ends.

    Guarantee: only GET is answered. The page goes to requests that name this machine as their host and come for no
    other page; so does the rest where nobody but this machine can ask, and beyond it whoever collects may name the
    host in their own way. At most 32 connections are open at a time: one more ends the oldest. The page is written
    only while somebody reads it.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(
        self,
        place: Place,
        report: RunReport | None,
        *,
        others: Places | None = None,
        name: str = "the live page",
    ) -> None:
        """Listen; nothing is answered before the block begins.

        Args:
            place: where.
            report: the page; None: there is none.
            others: what is answered beside it.
            name: of what is served, for errors.

        Raises:
            InputError: the address cannot be used.
        """
        self.place, self.others = place, others or {}
        self.newest = None if report is None else Newest(report)
        self._connections: dict[Any, None] = {}
        self._listen(name)
        self.port = int(self.server_address[1])
        host = place.host if ":" not in place.host else f"[{place.host}]"
        self.address = f"http://{host}:{self.port}/"
        """What a browser opens."""

    def _listen(self, name: str) -> None:
        """At the first port that is free."""
        host, ports = self.place.host, self.place.ports
        for port in ports:
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
                self.address_family = found[0]
                super().__init__((str(found[4][0]), port), _Handler)
                return
            except OSError as error:
                problem = error
        tried = f"{host}:{ports[0]}" + (f" to {ports[-1]}" if len(ports) > 1 else "")
        raise InputError(
            f"{name}: nothing can be served on {tried} ({problem.strerror or problem}); give another HOST:PORT"
        )

    def __enter__(self) -> Self:
        """Serve."""
        serve = {"poll_interval": _TICK_SECONDS}
        self._thread = threading.Thread(
            target=self.serve_forever, kwargs=serve, name="live-http", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let those who read it have the last page, and end."""
        if self.newest is not None and self.newest.end():
            time.sleep(_LAST_WORDS_SECONDS)
        self.shutdown()
        self._thread.join()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; where too many are under way, the oldest is ended."""
        self._connections[request] = None
        for oldest in list(self._connections)[:-_MOST_CONNECTIONS]:
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """It is over."""
        self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that left is no trouble, and a stack trace is for nobody here."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _SLOW_SECONDS
    server: PageServer

    def do_GET(self) -> None:
        """The page, unless it is the one that the reader has, or one of the other places."""
        place, newest = self.server.place, self.server.newest
        other = self.server.others.get(self.path)
        hosts = self.headers.get_all("Host") or []
        if not is_own_host(hosts, listening=place.host) and (other is None or place.is_loopback):
            self._refuse(421, "this page is served to its own address alone")
        elif self._is_for_another_page():
            self._refuse(403, "this is for no other page")
        elif other is not None:
            told = other()
            self._answer(told.status, told.kind, told.content)
        elif newest is not None and self.path == _PAGE:
            tag, page = newest.look()
            held = self.headers.get("If-None-Match") == tag
            content = b"" if held else page.encode()
            self._answer(304 if held else 200, _HTML, content, policy=LIVE_POLICY, tag=tag)
        else:
            self._refuse(404, "there is nothing here")

    def _is_for_another_page(self) -> bool:
        """Whether a browser asks on behalf of a page that is not this one, as its headers tell.

        Following a link to the page is allowed from anywhere: the page alone says nothing.
        """
        headers, own_origin = self.headers, f"http://{self.headers.get('Host')}"
        if headers.get("Origin", own_origin) != own_origin:
            return True
        own = headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none")
        return not own and headers.get("Sec-Fetch-Mode") != "navigate"

    def _refuse(self, status: int, sentence: str) -> None:
        self._answer(status, _PLAIN, f"{sentence}\n".encode())

    def _answer(
        self, status: int, kind: str, content: bytes, *, policy: str = _NOTHING, tag: str = ""
    ) -> None:
        self.send_response(status)
        own = {"Content-Type": kind, "Content-Length": str(len(content)), "Content-Security-Policy": policy}
        for name, value in (own | _HEADERS | ({"ETag": tag} if tag else {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class refuses by itself (another method, a line that is too long), in its own words."""
        self._refuse(405 if code == 501 else code, "only GET is answered")

    def version_string(self) -> str:
        """Name the program and no versions."""
        return "fedboard"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of the base class)
        """Say nothing."""
