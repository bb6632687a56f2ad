"""Health and metrics over HTTP, in Prometheus' text format: for the operator, on 127.0.0.1 unless told otherwise.

Metrics tell how many devices answered and what was refused, so they are not for the public: how often an answer
was refused depends on the devices' data in ways that no budget covers.
"""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedboard.common.errors import InputError
from fedboard.common.wire.addresses import parse_address
from fedboard.server.board_service.counters import LATENCY_BUCKETS, ServiceCounters
from fedboard.server.operating.health import failures_of, health
from fedboard.server.operating.log_lines import lines_of, number_of
from fedboard.server.operating.run_fares import Fares

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_LOG = "rounds.jsonl"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_TOTALS = {
    "answers": "Answers of clients that were taken.",
    "rejected_rows": "Rows of answers that broke a bound and were left out.",
    "bytes_up": "Bytes of answers.",
    "bytes_down": "Bytes of questions.",
    "seconds": "Seconds that rounds took.",
}


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
) -> RunningMetrics:
    """Serve ``/metrics`` and ``/healthz``.

    Args:
        address: ``host:port``; port 0 takes a free one. There is no authentication: keep it on 127.0.0.1 or behind
            something that has.
        folder: of a run; its ``rounds.jsonl`` and ``counts/*.json`` are read on each request.
        service: counters of a board service in this process.
        problem: a sentence where something is wrong; ``/healthz`` then answers 503 with it.
        most_lost: share of the run's rounds above which it answers 503 too.

    Raises:
        InputError: the address cannot be used.
    """
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Collector(folder, service))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._answer(200, _TEXT, generate_latest(registry))
            elif self.path == "/healthz":
                lines, failures = (
                    (None, 0.0) if folder is None else (lines_of(folder / _LOG), failures_of(folder))
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

    def __init__(self, folder: Path | None, service: ServiceCounters | None) -> None:
        self._folder, self._service = folder, service

    def collect(self) -> "Iterator[Metric]":
        """All metrics."""
        if self._folder is not None:
            yield from _round_metrics(lines_of(self._folder / _LOG))
            yield from _count_metrics(self._folder / "counts")
        if self._service is not None:
            yield from _service_metrics(self._service)


def _round_metrics(lines: list[dict[str, Any]]) -> "Iterator[Metric]":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield CounterMetricFamily("fedboard_rounds", "Rounds that ended with a board.", value=len(lines))
    lost = Fares.of(lines).lost
    yield CounterMetricFamily("fedboard_rounds_lost", "Rounds that were paid for and lost.", value=lost)
    for name, sentence in _TOTALS.items():
        total = sum(number_of(line.get(name)) for line in lines)
        yield CounterMetricFamily(f"fedboard_round_{name}", sentence, value=total)
    refused: Counter[str] = Counter()
    for line in lines:
        refused.update(
            {str(code): number_of(count) for code, count in dict(line.get("refused") or {}).items()}
        )
    refusals = CounterMetricFamily("fedboard_refusals", "Messages that were not taken.", labels=("code",))
    for code, count in sorted(refused.items()):
        refusals.add_metric((code,), count)
    yield refusals
    if lines:
        last = lines[-1]
        yield GaugeMetricFamily(
            "fedboard_epsilon_spent", "Epsilon of the run.", value=number_of(last.get("epsilon_spent"))
        )
        yield GaugeMetricFamily(
            "fedboard_delta", "Delta that goes with it.", value=number_of(last.get("delta"))
        )
        yield GaugeMetricFamily(
            "fedboard_last_round_seconds", "The last round.", value=number_of(last.get("seconds"))
        )


def _count_metrics(folder: Path) -> "Iterator[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    counts = GaugeMetricFamily("fedboard_count", "What a part of the server counts.", labels=("part", "name"))
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        for name, value in _leaves(content):
            counts.add_metric((path.stem, name), value)
    yield counts


def _leaves(content: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    """Numbers of nested objects with dotted names."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _leaves(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(content, int | float):
        yield prefix, float(content)


def _service_metrics(service: ServiceCounters) -> "Iterator[Metric]":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    requests = CounterMetricFamily(
        "fedboard_board_requests", "Requests of readers.", labels=("method", "outcome")
    )
    for (method, outcome), count in sorted(dict(service.requests).items()):
        requests.add_metric((method, outcome), count)
    yield requests
    yield CounterMetricFamily("fedboard_board_sent_bytes", "Bytes of board files.", value=service.bytes_sent)
    yield CounterMetricFamily(
        "fedboard_board_rate_limited", "Requests sent away.", value=service.rate_limited
    )
    yield GaugeMetricFamily("fedboard_board_streams", "Downloads under way.", value=service.streams)
    yield GaugeMetricFamily("fedboard_board_watchers", "Readers who wait.", value=service.watchers)
    front = service.front
    yield GaugeMetricFamily("fedboard_board_connections", "Open connections.", value=front.open)
    yield CounterMetricFamily(
        "fedboard_board_connections_refused", "Connections that were one too many.", value=front.refused
    )
    yield CounterMetricFamily(
        "fedboard_board_connections_closed", "Connections that were silent or slow.", value=front.closed
    )
    yield GaugeMetricFamily("fedboard_board_version", "Newest board; -1: none.", value=service.latest_version)
    counts, total, buckets = list(service.latency_counts), 0, []
    for bound, count in zip([*map(str, LATENCY_BUCKETS), "+Inf"], counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    yield HistogramMetricFamily(
        "fedboard_board_seconds", "Time of a request.", buckets=buckets, sum_value=service.latency_sum
    )
