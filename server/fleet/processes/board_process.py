"""The board service, and the metrics of the whole server, as a child process."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedboard.common.wire.addresses import Address
from fedboard.server.board_service.service import (
    RunningService,
    ServiceSettings,
    Signing,
    start_board_service,
)
from fedboard.server.fleet.plan.settings import FleetSettings, read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.fleet_status import Standing, fleet_families
from fedboard.server.fleet.processes.lifeline import end_with_parent, told_in_a_sentence
from fedboard.server.operating.families import service_families
from fedboard.server.operating.ops import start_ops
from fedboard.server.operating.report.log_lines import number_of

if TYPE_CHECKING:
    from prometheus_client.core import Metric


def board_command(config: Path) -> list[str]:
    """How it is started; its standard input is the lifeline."""
    return [sys.executable, "-m", "fedboard.server.fleet.processes.board_process", str(config)]


def main() -> None:
    """Serve boards and metrics, as long as the parent lives."""
    end_with_parent()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = read_settings(Path(sys.argv[1]))
    with ExitStack() as stack:
        service = _service(settings, stack)
        if settings.board.metrics_port is not None:
            stack.enter_context(
                start_ops(
                    f"127.0.0.1:{settings.board.metrics_port}",
                    run=StateFolder.of(settings).run,
                    families=lambda: _families(settings, service),
                    problems=lambda: _problems(service),
                    most_lost=settings.rounds.most_lost,
                    standing=Standing(settings).told,
                    mirror=StateFolder.of(settings).mirror,
                )
            )
        while service is None or not service.wait(1.0):
            if service is None:
                signal.pause()


def _families(settings: FleetSettings, service: RunningService | None) -> "Iterator[Metric]":
    yield from fleet_families(settings)
    yield from part_families(StateFolder.of(settings).counts)
    if service is not None:
        yield from service_families(service.counters)


def part_families(folder: Path) -> "Iterator[Metric]":
    """What the supervisor and the door have counted since each began."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    supervisor, door = (_counted(folder / f"{name}.json") for name in ("supervisor", "proxy"))
    failed = "Interruptions of the training since its last board."
    yield GaugeMetricFamily(
        "fedboard_training_failures", failed, value=number_of(supervisor.get("training_failures"))
    )
    for name, sentence, label, counts in (
        ("fedboard_device_calls", "Calls of devices.", "status", door.get("responses")),
        ("fedboard_joins", "Requests to join.", "outcome", door.get("joins")),
    ):
        family = CounterMetricFamily(name, sentence, labels=(label,))
        for key, count in counts.items() if isinstance(counts, dict) else ():
            family.add_metric((str(key),), number_of(count))
        yield family


def _counted(path: Path) -> dict[str, Any]:
    """What is in a file of counts; nothing where it is not there or damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _problems(service: RunningService | None) -> list[str]:
    return [] if service is None or service.problem is None else [service.problem]


def _service(settings: FleetSettings, stack: ExitStack) -> RunningService | None:
    board, state = settings.board, StateFolder.of(settings)
    if not board.enabled or board.signing_key is None:
        return None
    boards = state.run / "boards"
    boards.mkdir(parents=True, exist_ok=True)
    return stack.enter_context(
        start_board_service(
            ServiceSettings(
                mirror=state.mirror,
                signing=Signing(
                    boards=boards,
                    key=board.signing_key,
                    run=settings.name,
                    more_keys=board.more_signing_keys,
                    roots=board.roots,
                    days=board.manifest_days,
                    log=board.log,
                    witnesses=board.witnesses,
                ),
                simulation=board.simulation,
                address=Address(board.listen, board.port).text,
                certificate=settings.network.certificate,
                private_key=settings.network.key,
                limits=settings.board.limits,
            )
        )
    )


if __name__ == "__main__":
    with told_in_a_sentence("the board service"):
        main()
