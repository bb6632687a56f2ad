"""A part of a fleet as ``soak.py`` runs it: as ``chaos/part.py`` does, with faults planted where a control asks.

usage: python benchmarks/fleets/soak/part.py server|client|board ... (as ``fedboard server``, ``fedboard client``)

SOAK_FAULTS, of the controls alone: ``leaks`` 1 MB a round in the ServerApp, ``grows`` a file by 1 MB a round,
``books late``, ``withholds`` board 12.
SOAK_OLDER makes a device of the version whose messages were sealed otherwise: it reads version 1 alone.
"""

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from fleets.chaos import part as chaos
from fleets.soak.plan import WITHHELD

FAULTS = frozenset(os.environ.get("SOAK_FAULTS", "").split(","))
_MEGABYTE = 1 << 20
_leaked: list[bytearray] = []


def server_app() -> Any:
    """The ServerApp, watched, and broken where it should be; what the SuperLink starts imports this."""
    app = chaos.server_app()
    from fedboard.server.fleet.rounds.round_log import RoundLog

    if "leaks" in FAULTS:
        _at_each_round(RoundLog, lambda _: _leaked.append(bytearray(os.urandom(_MEGABYTE))))
    if "grows" in FAULTS:
        _at_each_round(RoundLog, _longer)
    if "books late" in FAULTS:
        from privacy.broken_servers import booked_late

        booked_late(lambda: chaos.on_step("late booking"))
    return app


def _at_each_round(owner: Any, more: Any) -> None:
    original = owner.append

    def append(self: Any, *arguments: Any, **keywords: Any) -> Any:
        more(self)
        return original(self, *arguments, **keywords)

    owner.append = append


def _longer(log: Any) -> None:
    with log.path.with_name("grows.log").open("ab") as stream:
        stream.write(bytes(_MEGABYTE))


def _be_server() -> None:
    from fedboard.server.fleet.processes import control, supervisor

    control._BUNDLE["fleet/server_app.py"] = b"from fleets.soak import part\n\napp = part.server_app()\n"
    if "withholds" in FAULTS:
        supervisor.board_command = lambda config: [sys.executable, __file__, "board", str(config)]


def _be_client() -> None:
    if os.environ.get("SOAK_OLDER"):
        from fedboard.common.rounds.question import Question
        from fedboard.common.rounds.step import StepMessage

        Question.VERSION = StepMessage.VERSION = 1
    chaos._be_client()


def _be_board_service() -> None:
    """The board service of a server that keeps one board to itself."""
    from fedboard.server.fleet.processes import board_process
    from fedboard.server.publication import BoardStore

    versions = BoardStore.versions
    BoardStore.versions = lambda self: [v for v in versions(self) if v != WITHHELD]  # type: ignore[method-assign]
    sys.argv = [__file__, sys.argv[2]]
    board_process.main()


if __name__ == "__main__":
    if sys.argv[1] == "board":
        _be_board_service()
    else:
        {"server": _be_server, "client": _be_client}[sys.argv[1]]()
        from fedboard.cli.main import main

        main()
