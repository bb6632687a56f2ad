"""Questions that the pinned server has signed, and that weigh more than they look: what a device needs for them.

Run as ``python -m tests.client.device.costly_boards CASE NUMBER FOLDER``; prints JSON.
"""

import gc
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fedboard.client.device.policy import Policy
from fedboard.common.board import Board, Catalogue
from tests.client.asking import signed
from tests.client.certified_boards import Device, a_question, certified_boards
from tests.client.fleet.hostile_messages import resident
from tests.common.tasks.conftest import a_task


def with_names(board: Board, names: tuple[str, ...]) -> Board:
    return replace(board, catalogue=Catalogue(item_ids=names), _digest=[])


CASES: dict[str, Callable[[Board, int], Board]] = {
    "one name": lambda board, number: with_names(board, ("aa",) * number),
    "wide letters": lambda board, number: with_names(board, (*("aa",) * number, "\U0001f600")),
    "many names": lambda board, number: with_names(board, tuple(f"{n:x}" for n in range(number))),
    "empty lists": lambda board, number: replace(
        board, config={**board.config, "more": [[]] * number}, _digest=[]
    ),
}


def main() -> None:
    case, number, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    board = certified_boards(folder, a_task(epsilon=5.0))[0]
    device = Device(folder / "device", Policy(epsilon=8.0, delta=1e-5, smallest_catalogue=5))
    device.code(board, run="warm")  # what any question needs is loaded
    content = signed(a_question(CASES[case](board, number)).content)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    device.reply(content)
    grown = resident("VmHWM") - before
    refused = [code.value for code in device.refusals()]
    print(json.dumps({"sent": len(content), "grown": grown, "refused": refused}))


if __name__ == "__main__":
    main()
