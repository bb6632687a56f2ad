"""The board service, and the metrics of the whole server, as a child process."""

import signal
import sys
from contextlib import ExitStack
from pathlib import Path

from fedboard.common.boards.witnesses import Witnesses
from fedboard.common.wire.addresses import Address
from fedboard.server.fleet.plan.settings import FleetSettings, read_settings
from fedboard.server.fleet.plan.state_folder import StateFolder
from fedboard.server.fleet.processes.fleet_status import fleet_families
from fedboard.server.fleet.processes.lifeline import end_with_parent, told_in_a_sentence
from fedboard.server.operating.metrics import start_metrics
from fedboard.server.publishing.serving import RunningBoards, Signing, serve_boards


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
                start_metrics(
                    f"127.0.0.1:{settings.board.metrics_port}",
                    StateFolder.of(settings).run,
                    service=None if service is None else service.counters,
                    problem=lambda: None if service is None else service.problem,
                    most_lost=settings.rounds.most_lost,
                    fleet=lambda: fleet_families(settings),
                )
            )
        while service is None or not service.wait(1.0):
            if service is None:
                signal.pause()


def _service(settings: FleetSettings, stack: ExitStack) -> RunningBoards | None:
    board, state = settings.board, StateFolder.of(settings)
    if not board.enabled or board.signing_key is None:
        return None
    boards = state.run / "boards"
    boards.mkdir(parents=True, exist_ok=True)
    return stack.enter_context(
        serve_boards(
            state.mirror,
            signing=Signing(
                boards=boards,
                key=board.signing_key,
                run=settings.name,
                more_keys=board.more_signing_keys,
                roots=board.roots,
                days=board.manifest_days,
                witnesses=Witnesses.of(board.witnesses, board.cosignatures),
            ),
            simulation=board.simulation,
            address=Address(board.listen, board.port).text,
            certificate=settings.network.certificate,
            private_key=settings.network.key,
            limits=settings.board.limits,
        )
    )


if __name__ == "__main__":
    with told_in_a_sentence("the board service"):
        main()
