"""Questions that the pinned server has signed, and that weigh more than they look: what a device needs for them.

Run as ``python -m tests.client.participation.costly_boards FOLDER CASE NUMBER [CASE NUMBER ...]``; prints a line
of JSON for each case. A process of its own takes each, all as they were when this one had loaded what any question
needs.
"""

import gc
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fedboard.client.participation.policy import Policy
from fedboard.common.board import Board, Catalogue
from tests.client.asking import signed
from tests.client.certified_boards import Device, a_question, certified_boards
from tests.common.algorithms.conftest import a_task
from tests.memory import resident

POLICY = Policy(epsilon=8.0, delta=1e-5, smallest_catalogue=5)


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
    folder = Path(sys.argv[1])
    board = certified_boards(folder, a_task(epsilon=5.0))[0]
    device = Device(folder / "device", POLICY)
    device.code(board, run="warm")  # what any question needs is loaded
    for case, number in zip(sys.argv[2::2], sys.argv[3::2], strict=True):
        if (child := os.fork()) == 0:
            there = shutil.copytree(device.folder, folder / f"for {case}")
            print(json.dumps(cost(Device(there, POLICY), board, case, int(number))), flush=True)
            return
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{case}: status {status}")


def cost(device: Device, board: Board, case: str, number: int) -> dict[str, object]:
    """Put the question; what was sent, how much was needed, and the word that came back."""
    content = signed(a_question(CASES[case](board, number)).content)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    device.reply(content)
    grown = resident("VmHWM") - before
    return {"sent": len(content), "grown": grown, "refused": [code.value for code in device.refusals()]}


if __name__ == "__main__":
    main()
