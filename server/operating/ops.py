"""The plain port of a fleet's server: the live report, metrics and health, for the operator.

Metrics tell how many devices answered and what was refused, so they are not for the public: how often an answer
was refused depends on the devices' data in ways that no budget covers. One family a quantity, base units, names as
Prometheus' own conventions have them (https://prometheus.io/docs/practices/naming/): counters end in ``_total``,
times are ``_seconds``, sizes ``_bytes``, moments ``_timestamp_seconds``.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fedboard.common.files import stamp_of
from fedboard.server.operating.run_files import Fares, RunFiles, lines_of, number_of
from fedboard.server.operating.run_report import RunReport
from fedboard.server.operating.serving import Answer, PageServer, Places, place_of
from fedboard.server.publishing.service import ServiceCounters

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LOG: Final = "rounds.jsonl"
_SUMS: Final = {
    "answers": ("fedboard_answers", "Answers of devices that were taken."),
    "rejected_rows": ("fedboard_rejected_rows", "Rows of answers that broke a bound and were left out."),
    "bytes_up": ("fedboard_answer_bytes", "Bytes of answers that were taken."),
    "bytes_down": ("fedboard_question_bytes", "Bytes of questions, one device's of each round."),
}
"""Field of the log to the counter that adds it up."""


def run_families(folder: Path) -> "Iterator[Metric]":
    """Of a run, read afresh."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    lines = lines_of(folder / LOG)
    fares, seconds = Fares.of(lines), [number_of(line.get("seconds")) for line in lines]
    rounds = {("made",): fares.made, ("lost",): fares.lost}
    yield _counted("fedboard_rounds", "Rounds with a board, or lost with their budget.", ["outcome"], rounds)
    planned = "Rounds of the whole run; 0 before the first."
    yield GaugeMetricFamily("fedboard_rounds_planned", planned, fares.planned or 0)
    for field, (name, sentence) in _SUMS.items():
        yield CounterMetricFamily(name, sentence, sum(number_of(line.get(field)) for line in lines))
    yield _times("fedboard_round_duration_seconds", "Time of a round.", len(lines), sum(seconds))
    refused = Counter[tuple[str]]()
    for line in lines:
        told = dict(line.get("refused") or {})
        refused.update({(str(code),): number_of(count) for code, count in told.items()})
    yield _counted("fedboard_refusals", "Messages that were not taken.", ["code"], refused)
    if lines:
        spent, delta = (number_of(lines[-1].get(field)) for field in ("epsilon_spent", "delta"))
        yield GaugeMetricFamily("fedboard_epsilon_spent", "Epsilon of the run.", spent)
        yield GaugeMetricFamily("fedboard_delta", "Delta that goes with it.", delta)
        last = "fedboard_last_round_duration_seconds"
        yield GaugeMetricFamily(last, "Time of the last round.", seconds[-1])
    if (stamp := stamp_of(folder / LOG)) is not None:
        ended = "fedboard_last_round_timestamp_seconds"
        yield GaugeMetricFamily(ended, "When the last round ended.", stamp[0] / 1e9)


def service_families(service: ServiceCounters) -> "Iterator[Metric]":
    """Of a board service in this process."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    requests, limited = dict(service.requests), service.rate_limited
    yield _counted("fedboard_board_requests", "Requests of readers.", ["method", "outcome"], requests)
    yield CounterMetricFamily("fedboard_board_sent_bytes", "Bytes of board files.", service.bytes_sent)
    yield CounterMetricFamily("fedboard_board_rate_limited_requests", "Requests sent away.", limited)
    yield GaugeMetricFamily("fedboard_board_streams", "Downloads under way.", service.streams)
    yield GaugeMetricFamily("fedboard_board_watchers", "Readers who wait.", service.watchers)
    yield GaugeMetricFamily("fedboard_board_version", "Newest board; -1: none.", service.latest_version)
    times = service.answered, service.answer_seconds
    yield _times("fedboard_board_request_duration_seconds", "Time of a request.", *times)


def _counted(name: str, sentence: str, labels: Sequence[str], counts: Mapping[Any, float]) -> "Metric":
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(name, sentence, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family


def _times(name: str, sentence: str, count: int, seconds: float) -> "Metric":
    from prometheus_client.core import SummaryMetricFamily

    return SummaryMetricFamily(name, sentence, count_value=count, sum_value=seconds)


OK, FAILING = 200, 503
"""Status codes; a run that is degraded is alive, and to start it again would not help, so it is ``OK``."""


def health(
    problems: Sequence[str], lines: Sequence[Mapping[str, Any]] | None = None, *, most_lost: float = 1.0
) -> tuple[int, dict[str, Any]]:
    """The status code, and a JSON object: ``status`` (ok, degraded or failing), ``problem``, ``rounds``.

    Args:
        problems: what is wrong in this process, in sentences.
        lines: of a run's log of rounds; None: no run.
        most_lost: share of the planned rounds above which the run counts as failing.
    """
    fares = None if lines is None else Fares.of(lines)
    told: dict[str, Any] = {}
    if fares is not None:
        told = {"rounds": {"planned": fares.planned, "made": fares.made, "lost": fares.lost}}
        if fares.share_lost > most_lost:
            problems = [*problems, f"{fares.sentence}; more than rounds.most_lost ({most_lost:g}) allows"]
    if problems:
        return FAILING, {"status": "failing", "problem": "; ".join(problems), **told}
    if fares is not None and fares.lost:
        return OK, {"status": "degraded", "problem": fares.sentence, **told}
    return OK, {"status": "ok", **told}


_EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def start_ops(
    address: str,
    *,
    run: Path | None,
    families: "Callable[[], Iterable[Metric]]" = tuple,
    problems: Callable[[], Sequence[str]] = tuple,
    most_lost: float = 1.0,
) -> Iterator[PageServer]:
    """Serve ``/`` (the live report), ``/metrics`` and ``/healthz`` in threads of this process while the block runs.

    Nothing has to be told to it: everything is read afresh, on each request or while somebody reads the page. The
    functions are called from its threads, several at a time, and must be cheap (milliseconds) and raise nothing.

    Args:
        address: ``HOST:PORT``; port 0 takes a free one (``port`` of what is returned). There is no authentication:
            keep it on 127.0.0.1 or behind something that has.
        run: folder of the run, which need not be there yet: its ``rounds.jsonl``, ledger and boards are read.
            None: there is no run, and no report.
        families: metrics of live objects of this process, beside those of the run's log. ``prometheus_client``
            objects that a registry of their own holds: ``registry.collect``.
        problems: what is wrong now, in sentences; ``/healthz`` answers 503 with them where there are any, and
            the metric ``fedboard_problems`` counts them.
        most_lost: share of the run's rounds above which it answers 503, too.

    Raises:
        InputError: the address cannot be used.
    """
    place = place_of(address, port=0, name="the address of metrics, health and report")
    files = None if run is None else RunFiles(folder=run)

    def healthy() -> Answer:
        lines = None if files is None else lines_of(files.log)
        status, told = health(problems(), lines, most_lost=most_lost)
        return Answer(kind="application/json", content=json.dumps(told).encode(), status=status)

    others: Places = {"/metrics": _exposition(files, families, problems), "/healthz": healthy}
    report = None if files is None else RunReport(files=files)
    with PageServer(place, report, others=others, name="metrics, health and report") as server:
        yield server


def _exposition(
    files: RunFiles | None, families: "Callable[[], Iterable[Metric]]", problems: Callable[[], Sequence[str]]
) -> Callable[[], Answer]:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily

    class Collector:
        def collect(self) -> "Iterator[Metric]":
            build = GaugeMetricFamily(
                "fedboard_build_info", "The version that serves this.", labels=("version",)
            )
            build.add_metric((version("fedboard"),), 1)
            yield build
            wrong = "What is wrong now; /healthz says what."
            yield GaugeMetricFamily("fedboard_problems", wrong, len(problems()))
            if files is not None:
                yield from run_families(files.folder)
            yield from families()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    return lambda: Answer(kind=_EXPOSITION, content=generate_latest(registry))
