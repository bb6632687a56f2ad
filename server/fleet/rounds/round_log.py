"""The log of a run's rounds: one JSON line each, for whoever operates the fleet. Not for publication."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedboard.server.operating.run_fares import LOST
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
        text = "".join(json.dumps(one, sort_keys=True, allow_nan=False) + "\n" for one in (*kept, line))
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
