"""The log of a run's rounds: one JSON line each, for whoever operates the fleet. Not for publication."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedboard.common.board import Board
from fedboard.common.certificate import Certificate
from fedboard.common.privacy.accounting.guarantee import Guarantee
from fedboard.server.operating.run_fares import LOST, PLANNED, UNLOGGED
from fedboard.server.training import FinishedRound


class RoundLog:
    """Lines in a file; a last line that a crash cut short is left out, and written over."""

    def __init__(self, path: Path) -> None:
        """Use a file that may exist."""
        self.path = path

    def append(self, finished: FinishedRound, told: Mapping[str, Any]) -> None:
        """Add the line of a round, with what else is told about it."""
        kept = self.lines()
        traffic = finished.traffic
        line: dict[str, Any] = {
            "round": finished.board.version - 1,
            "board_digest": finished.board.digest,
            "releases": list(finished.releases),
            LOST: finished.lost,
            "rejected_rows": finished.rejected_rows,
            "seconds": finished.seconds,
            "epsilon_spent": finished.spent.epsilon,
            "delta": finished.spent.delta,
            "bytes_up_per_user": None if traffic is None else traffic.to_dict(),
            "bytes_down_per_client": None if traffic is None else traffic.down,
            **told,
        }
        self._write([*kept, line])

    def catch_up(self, board: Board, before: Board, *, spent: Guarantee, planned: int) -> None:
        """Add the line of a round whose process ended after its board was published and before it was logged. Who
        answered is not known any more.

        Args:
            board: the last one that is published.
            before: the one before it.
            spent: by the run so far.
            planned: rounds of the whole run.
        """
        kept, number = self.lines(), board.version - 1
        if kept and kept[-1]["round"] >= number:
            return
        known = {release["name"] for release in _releases(before)}
        releases = [release["name"] for release in _releases(board) if release["name"] not in known]
        line = {
            "round": number,
            "board_digest": board.digest,
            "releases": releases,
            LOST: not releases,
            "seconds": 0.0,
            "epsilon_spent": spent.epsilon,
            "delta": spent.delta,
            PLANNED: planned,
            UNLOGGED: True,
        }
        self._write([*kept, line])

    def _write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        text = "".join(json.dumps(one, sort_keys=True, allow_nan=False) + "\n" for one in lines)
        self.path.with_suffix(".part").write_text(text, encoding="utf-8")
        self.path.with_suffix(".part").replace(self.path)

    def lines(self) -> list[dict[str, Any]]:
        """The lines so far."""
        if not self.path.exists():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                break
        return found


def _releases(board: Board) -> Sequence[Mapping[str, Any]]:
    return Certificate.from_dict(dict(board.certificate or {})).releases
