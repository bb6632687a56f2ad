"""What ``chaos.py`` must catch: broken servers, and files that were tampered with after a run."""

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedboard.common.board import Board
from fleets.chaos.checks import Left, problems
from fleets.chaos.run import ChaosRun
from fleets.deployment import FleetPlan

BROKEN = {
    "books late": ({"at": "late booking", "steps": 3}, "underbooked_ledgers"),
    "draws again": ({"at": "after: draw", "steps": 9}, "double_releases"),
}
"""Server -> step at which it ends itself once, in the middle of the training, and the count that must show it."""


def broken_servers(folder: Path, plan: FleetPlan) -> dict[str, list[str]]:
    """What was found of each."""
    found = {}
    for name, (step, kind) in BROKEN.items():
        run = ChaosRun(
            folder=folder / name.replace(" ", "-"), plan=plan, seed=name, events=0, broken=name, die_at=step
        )
        found[name] = run.go()["problems"][kind]
        print(f"control {name}: {found[name][:1]}", flush=True)
    return found


def tampered_files(folder: Path, plan: FleetPlan) -> dict[str, list[str]]:
    """What was found in each of several copies of one finished run."""
    run = ChaosRun(folder=folder / "whole", plan=plan, seed="whole", events=0)
    record = run.go()
    said = [text for texts in record["problems"].values() for text in texts]
    if record["ended"] != "finished" or said:
        raise SystemExit(f"the run without disturbances {record['ended']}: {said}")
    tampers: dict[str, tuple[Callable[[Left], None], str]] = {
        "ledger cut short": (_cut_ledger, "underbooked_ledgers"),
        "device forgot": (_forget_device, "underbooked_ledgers"),
        "device booked less": (_cut_device, "underbooked_ledgers"),
        "board gone": (_remove_board, "lost_boards"),
        "board replaced": (_replace_board, "lost_boards"),
        "board of NaN": (_spoil_board, "invalid_final_boards"),
        "noise drawn once more": (_draw_again, "double_releases"),
    }
    shutil.copytree(run.folder, folder / "kept")
    found = {}
    for name, (tamper, kind) in tampers.items():
        shutil.rmtree(run.folder)
        shutil.copytree(folder / "kept", run.folder)
        tamper(run.left())
        found[name] = problems(run.left())[kind]
        print(f"control {name}: {found[name][:1]}", flush=True)
    return found


def _cut_ledger(left: Left) -> None:
    _drop_last_row(left.run / "ledger.sqlite")


def _cut_device(left: Left) -> None:
    _drop_last_row(left.folder / "a" / "state" / "ledger.sqlite")


def _drop_last_row(ledger: Path) -> None:
    with sqlite3.connect(ledger) as connection:
        connection.execute("DELETE FROM events WHERE seq = (SELECT MAX(seq) FROM events)")
    connection.close()


def _forget_device(left: Left) -> None:
    (left.folder / "b" / "state" / "ledger.sqlite").unlink()


def _last(left: Left) -> Path:
    return max((left.run / "boards").glob("board-*.board"))


def _remove_board(left: Left) -> None:
    _last(left).unlink()


def _replace_board(left: Left) -> None:
    board = left.boards[-1]
    replace(board, arrays=left.boards[-2].arrays, _digest=[]).save(_last(left))


def _spoil_board(left: Left) -> None:
    board: Board = left.boards[-1]
    arrays = {name: np.array(array) for name, array in board.arrays.items()}
    name = next(name for name, array in arrays.items() if array.dtype.kind == "f")
    arrays[name].flat[0] = np.nan
    replace(board, arrays=arrays, _digest=[]).save(_last(left))


def _draw_again(left: Left) -> None:
    line = next(line for line in left.notes.read_text().splitlines() if '"draw"' in line)
    with left.notes.open("a") as stream:
        stream.write(line + "\n")
