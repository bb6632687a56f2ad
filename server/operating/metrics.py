"""Health and metrics over HTTP, in Prometheus' text format: for the operator, on 127.0.0.1 unless told otherwise.

Metrics tell how many devices answered and what was refused, so they are not for the public: how often an answer
was refused depends on the devices' data in ways that no budget covers.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from fedboard.common.errors import InputError
from fedboard.common.wire.addresses import parse_address
from fedboard.server.operating.families import LOG, run_families, service_families
from fedboard.server.operating.health import failures_of, health
from fedboard.server.operating.log_lines import lines_of
from fedboard.server.publishing.counters import ServiceCounters

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
Families: TypeAlias = "Callable[[], Iterable[Metric]]"


class RunningMetrics:
    """The HTTP server, in a thread of its own."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self.port = int(server.server_address[1])
        self._thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> "RunningMetrics":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_metrics(
    address: str,
    folder: Path | None = None,
    *,
    service: ServiceCounters | None = None,
    problem: Callable[[], str | None] = lambda: None,
    most_lost: float = 1.0,
    fleet: Families = tuple,
) -> RunningMetrics:
    """Serve ``/metrics`` and ``/healthz``.

    Args:
        address: ``host:port``; port 0 takes a free one. There is no authentication: keep it on 127.0.0.1 or behind
            something that has.
        folder: of a run; its ``rounds.jsonl`` and ``counts/*.json`` are read on each request.
        service: counters of a board service in this process.
        problem: a sentence where something is wrong; ``/healthz`` then answers 503 with it.
        most_lost: share of the run's rounds above which it answers 503 too.
        fleet: what else is told, afresh on each request.

    Raises:
        InputError: the address cannot be used.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Collector(folder, service, fleet))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, _TEXT, generate_latest(registry))
            elif self.path == "/healthz":
                lines, failures = (
                    (None, 0.0) if folder is None else (lines_of(folder / LOG), failures_of(folder))
                )
                status, told = health(problem(), lines, failures=failures, most_lost=most_lost)
                self._answer(status, "application/json", json.dumps(told).encode())
            else:
                self._answer(404, _TEXT, b"/metrics and /healthz are here\n")

        def _answer(self, status: int, kind: str, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of the base class)
            """Say nothing."""

    place = parse_address(address, name="the address of the metrics", listening=True)
    try:
        return RunningMetrics(ThreadingHTTPServer(place, Handler))
    except (OSError, ValueError) as error:
        raise InputError(f"metrics cannot be served on {address!r} ({error}); give HOST:PORT") from error


class _Collector:
    """Reads everything afresh on each request, so that nothing has to be told to it."""

    def __init__(self, folder: Path | None, service: ServiceCounters | None, fleet: Families) -> None:
        self._folder, self._service, self._fleet = folder, service, fleet

    def collect(self) -> "Iterator[Metric]":
        """All metrics."""
        from prometheus_client.core import GaugeMetricFamily

        build = GaugeMetricFamily("fedboard_build_info", "The version that serves this.", labels=("version",))
        build.add_metric((version("fedboard"),), 1)
        yield build
        if self._folder is not None:
            yield from run_families(self._folder)
        if self._service is not None:
            yield from service_families(self._service)
        yield from self._fleet()
