"""What the metrics tell, as families of Prometheus: of a run's log, of a board service.

One family a quantity, base units, names as Prometheus' own conventions have them (https://prometheus.io/docs/practices/naming/):
counters end in ``_total``, times are ``_seconds``, sizes ``_bytes``, moments ``_timestamp_seconds``.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedboard.common.files import stamp_of
from fedboard.server.operating.report.log_lines import lines_of, number_of
from fedboard.server.operating.run_fares import Fares
from fedboard.server.publishing.service import ServiceCounters

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LOG = "rounds.jsonl"
_SUMS = {
    "answers": ("fedboard_answers", "Answers of devices that were taken."),
    "rejected_rows": ("fedboard_rejected_rows", "Rows of answers that broke a bound and were left out."),
    "bytes_up": ("fedboard_answer_bytes", "Bytes of answers that were taken."),
    "bytes_down": ("fedboard_question_bytes", "Bytes of questions, one device's of each round."),
}
"""Field of the log to the counter that adds it up."""


def run_families(folder: Path) -> "Iterator[Metric]":
    """Of a run, read afresh."""
    yield from _round_families(lines_of(folder / LOG))
    if (stamp := stamp_of(folder / LOG)) is not None:
        yield _gauge("fedboard_last_round_timestamp_seconds", "When the last round ended.", stamp[0] / 1e9)


def _round_families(lines: list[dict[str, Any]]) -> "Iterator[Metric]":
    from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily

    fares = Fares.of(lines)
    rounds = CounterMetricFamily(
        "fedboard_rounds", "Rounds that ended, with a board or lost with their budget.", labels=("outcome",)
    )
    rounds.add_metric(("made",), fares.made)
    rounds.add_metric(("lost",), fares.lost)
    yield rounds
    yield _gauge(
        "fedboard_rounds_planned", "Rounds of the whole run; 0 before the first.", fares.planned or 0
    )
    for field, (name, sentence) in _SUMS.items():
        yield CounterMetricFamily(name, sentence, value=sum(number_of(line.get(field)) for line in lines))
    seconds = [number_of(line.get("seconds")) for line in lines]
    yield SummaryMetricFamily(
        "fedboard_round_duration_seconds", "Time of a round.", count_value=len(lines), sum_value=sum(seconds)
    )
    yield _refusals(lines)
    if lines:
        last = lines[-1]
        yield _gauge("fedboard_epsilon_spent", "Epsilon of the run.", number_of(last.get("epsilon_spent")))
        yield _gauge("fedboard_delta", "Delta that goes with it.", number_of(last.get("delta")))
        yield _gauge("fedboard_last_round_duration_seconds", "Time of the last round.", seconds[-1])


def _refusals(lines: list[dict[str, Any]]) -> "Metric":
    from prometheus_client.core import CounterMetricFamily

    refused: Counter[str] = Counter()
    for line in lines:
        refused.update(
            {str(code): number_of(count) for code, count in dict(line.get("refused") or {}).items()}
        )
    family = CounterMetricFamily("fedboard_refusals", "Messages that were not taken.", labels=("code",))
    for code, count in sorted(refused.items()):
        family.add_metric((code,), count)
    return family


def service_families(service: ServiceCounters) -> "Iterator[Metric]":
    """Of a board service in this process."""
    from prometheus_client.core import CounterMetricFamily, SummaryMetricFamily

    requests = CounterMetricFamily(
        "fedboard_board_requests", "Requests of readers.", labels=("method", "outcome")
    )
    for (method, outcome), count in sorted(dict(service.requests).items()):
        requests.add_metric((method, outcome), count)
    yield requests
    yield CounterMetricFamily("fedboard_board_sent_bytes", "Bytes of board files.", value=service.bytes_sent)
    yield CounterMetricFamily(
        "fedboard_board_rate_limited_requests", "Requests sent away.", value=service.rate_limited
    )
    yield _gauge("fedboard_board_streams", "Downloads under way.", service.streams)
    yield _gauge("fedboard_board_watchers", "Readers who wait.", service.watchers)
    yield _gauge("fedboard_board_version", "Newest board; -1: none.", service.latest_version)
    yield SummaryMetricFamily(
        "fedboard_board_request_duration_seconds",
        "Time of a request.",
        count_value=service.answered,
        sum_value=service.answer_seconds,
    )


def _gauge(name: str, sentence: str, value: float) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, sentence, value=value)
