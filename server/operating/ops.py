"""The plain port of a fleet's server: the live report, metrics and health, for the operator.

Metrics tell how many devices answered and what was refused, so they are not for the public: how often an answer
was refused depends on the devices' data in ways that no budget covers.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedboard.common.wire.pages.place import place_of
from fedboard.common.wire.pages.serving import Answer, PageServer, Places
from fedboard.server.operating.families import run_families
from fedboard.server.operating.health import health
from fedboard.server.operating.report.log_lines import lines_of
from fedboard.server.operating.report.run_files import RunFiles
from fedboard.server.operating.report.run_report import RunReport

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from fedboard.common.boards.board_signature import PinnedKey

_EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def start_ops(
    address: str,
    *,
    run: Path | None,
    families: "Callable[[], Iterable[Metric]]" = tuple,
    problems: Callable[[], Sequence[str]] = tuple,
    most_lost: float = 1.0,
    standing: Callable[[], Mapping[str, Any]] | None = None,
    mirror: Path | None = None,
    key: "PinnedKey | None" = None,
) -> Iterator[PageServer]:
    """Serve ``/`` (the live report), ``/metrics`` and ``/healthz`` in threads of this process while the block runs.

    Nothing has to be told to it: everything is read afresh, on each request or while somebody reads the page. The
    functions are called from its threads, several at a time, and must be cheap (milliseconds) and raise nothing.

    Args:
        address: ``HOST:PORT``; port 0 takes a free one (``port`` of what is returned). There is no authentication:
            keep it on 127.0.0.1 or behind something that has. On another address the report leaves out who is
            there and who answered.
        run: folder of the run, which need not be there yet: its ``rounds.jsonl``, ledger and boards are read.
            None: there is no run, and no report.
        families: metrics of live objects of this process, beside those of the run's log. ``prometheus_client``
            objects that a registry of their own holds: ``registry.collect``.
        problems: what is wrong now, in sentences; ``/healthz`` answers 503 with them where there are any, and
            the metric ``fedboard_problems`` counts them.
        most_lost: share of the run's rounds above which it answers 503, too.
        standing: who is there: ``admitted``, ``online``, ``invited``, ``open_invitations``, ``quorum``,
            ``expected`` (devices a round asks), ``versions``, ``expires`` (``what`` and ``at``) and ``problems``.
            Asked every five seconds while somebody reads the report; what is missing is not shown.
        mirror: where the boards lie signed, if anywhere.
        key: by which their signature is checked.

    Raises:
        InputError: the address cannot be used.
    """
    place = place_of(address, port=0, name="the address of metrics, health and report")
    files = None if run is None else RunFiles(folder=run, mirror=mirror)

    def healthy() -> Answer:
        lines = None if files is None else lines_of(files.log)
        status, told = health(problems(), lines, most_lost=most_lost)
        return Answer(kind="application/json", content=json.dumps(told).encode(), status=status)

    others: Places = {"/metrics": _exposition(files, families, problems), "/healthz": healthy}
    report = (
        None
        if files is None
        else RunReport(files=files, for_operator=place.is_loopback, key=key, standing=standing)
    )
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
            yield GaugeMetricFamily("fedboard_problems", wrong, value=len(problems()))
            if files is not None:
                yield from run_families(files.folder)
            yield from families()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    return lambda: Answer(kind=_EXPOSITION, content=generate_latest(registry))
