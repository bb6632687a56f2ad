"""Serving a live page: GET of two places, the page and its events, from the standard library's HTTP server."""

import socket
import socketserver
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from fedboard.common.errors import InputError
from fedboard.common.wire.live.door import is_for_another_page, is_own_host
from fedboard.common.wire.live.feed import TICK_SECONDS, Feed, Source, Watcher
from fedboard.common.wire.live.pages import LivePage, live_page
from fedboard.common.wire.live.place import Place, family_of

_PAGE, _EVENTS = "/", "/events"
_AGAIN_MS = 1000
"""After so long a browser asks again for events that ended."""
_BEAT_SECONDS = 5.0
"""Between signs of life; a page that misses three of them asks again."""
_SLOW_SECONDS = 10.0
"""For a request to come in whole, and for an event to be taken."""
_MOST_CONNECTIONS, _MAKES_ROOM_SECONDS = 32, 1.0
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class LiveServer:
    """A page and its events on one address, until the block ends.

    Guarantee: only GET of the page and of its events is answered, to requests that name this machine as their
    host and come for no other page; at most 32 connections at a time, of which one that is slow to ask makes room.
    """

    def __init__(self, place: Place, source: Source) -> None:
        """Listen; nothing is answered before the block begins.

        Args:
            place: where.
            source: what is watched.

        Raises:
            InputError: the address cannot be used.
        """
        self._page, self._feed, self._source = live_page(), Feed(), source
        self._server = _listening(place, self)
        host = place.host if ":" not in place.host else f"[{place.host}]"
        self.address = f"http://{host}:{self._server.server_address[1]}/"
        """What a browser opens."""
        self.listening = place.host

    @property
    def page(self) -> LivePage:
        """What is served."""
        return self._page

    @property
    def feed(self) -> Feed:
        """What is told."""
        return self._feed

    def __enter__(self) -> "LiveServer":
        """Watch and serve."""
        self._watcher = Watcher(self._source, self._feed.tell).__enter__()
        self._thread = threading.Thread(target=self._serve, name="live-http", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        """Tell the last state, say good-bye to those who watch, and stop."""
        self._watcher.__exit__(*ended)
        self._feed.close()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=TICK_SECONDS)


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Threads that end with the process; a bounded number of them."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, family: socket.AddressFamily, address: tuple[str, int], live: LiveServer) -> None:
        self.address_family, self.live = family, live
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self.unread = dict[Any, None]()
        """Connections whose request has not come in whole, the oldest first."""
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or hang up where too many are under way and none of them makes room."""
        if self._free.acquire(blocking=False) or self._made_room():
            self.unread[request] = None
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def _made_room(self) -> bool:
        """Whether the connection whose request is longest on its way was ended."""
        for slowest in list(self.unread)[:1]:
            with suppress(OSError):
                slowest.shutdown(socket.SHUT_RDWR)
            return self._free.acquire(timeout=_MAKES_ROOM_SECONDS)
        return False

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Make room again afterwards."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.unread.pop(request, None)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that left is no trouble, and a stack trace is for nobody here."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _SLOW_SECONDS
    server: _Server

    def do_GET(self) -> None:
        """The page, or its events for as long as somebody reads them."""
        self.server.unread.pop(self.connection, None)
        live, events = self.server.live, self.path.endswith(_EVENTS)
        hosts = self.headers.get_all("Host") or []
        if not is_own_host(hosts, listening=live.listening):
            self._refuse(421, "this page is served to its own address alone")
        elif is_for_another_page(
            origin=self.headers.get("Origin"),
            host=hosts[0],
            site=self.headers.get("Sec-Fetch-Site"),
            mode=self.headers.get("Sec-Fetch-Mode"),
            events=events,
        ):
            self._refuse(403, "this is for no other page")
        elif self.path not in {_PAGE, _EVENTS}:
            self._refuse(404, "there is nothing here")
        elif self.path == _EVENTS:
            self._stream(live.feed, live.page.digest)
        else:
            self._answer(200, "text/html; charset=utf-8", live.page.content, policy=live.page.policy)

    def _stream(self, feed: Feed, digest: str) -> None:
        self._head(200, "text/event-stream", policy="default-src 'none'")
        self._write(f"retry: {_AGAIN_MS}\nevent: page\ndata: {digest} {time.time():.3f}\n\n")
        number = -1
        while not feed.closed or feed.after(number, patience=0) is not None:
            news = feed.after(number, patience=_BEAT_SECONDS)
            if news is None:
                self._write("event: beat\ndata:\n\n")
            else:
                number = news.number
                self._write(f"event: state\ndata: {news.text}\n\n")
        self._write("event: end\ndata:\n\n")

    def _refuse(self, status: int, sentence: str) -> None:
        self._answer(
            status, "text/plain; charset=utf-8", f"{sentence}\n".encode(), policy="default-src 'none'"
        )

    def _answer(self, status: int, kind: str, content: bytes, *, policy: str) -> None:
        self._head(status, kind, policy=policy, length=len(content))
        self.wfile.write(content)

    def _head(self, status: int, kind: str, *, policy: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", policy)
        self.end_headers()

    def _write(self, text: str) -> None:
        self.wfile.write(text.encode("utf-8"))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class refuses by itself (another method, a line that is too long), in its own words."""
        self._refuse(405 if code == 501 else code, "only GET of the page and of its events is answered")

    def version_string(self) -> str:
        """Name the program and no versions."""
        return "fedboard"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of the base class)
        """Say nothing."""


def _listening(place: Place, live: LiveServer) -> _Server:
    problem: OSError | None = None
    for port in place.ports:
        try:
            family, address = family_of(place.host, port)
            return _Server(family, address, live)
        except OSError as error:
            problem = error
    told = "" if problem is None else f" ({problem.strerror or problem})"
    tried = f"{place.host}:{place.ports[0]}" + (f" to {place.ports[-1]}" if len(place.ports) > 1 else "")
    raise InputError(
        f"the live page cannot be served on {tried}{told}; give another address with --live HOST:PORT"
    )
