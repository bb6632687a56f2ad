"""How a run fares, read from its log of rounds: how many rounds were planned, made and lost, and what is spent.

The log has a JSON object a line, and is read while somebody may be writing.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedboard.common.errors import RoundsLostError

PLANNED, LOST, UNLOGGED = "rounds_planned", "lost", "unlogged"
"""Fields of a line of the log. The last one is there where the round's process ended before it had written it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fares:
    """Of one run so far."""

    planned: int | None
    """Rounds of the whole run; None before the first one has ended."""
    made: int
    """Rounds whose releases made a board."""
    lost: int
    """Rounds that were paid for and given up, or interrupted before their board was published."""
    spent: float
    """Epsilon."""

    @staticmethod
    def of(lines: Iterable[Mapping[str, Any]]) -> "Fares":
        """From the lines of the log."""
        rounds = list(lines)
        last: Mapping[str, Any] = rounds[-1] if rounds else {}
        lost = sum(1 for line in rounds if line.get(LOST, not line.get("releases", True)))
        return Fares(
            planned=last.get(PLANNED),
            made=len(rounds) - lost,
            lost=lost,
            spent=float(last.get("epsilon_spent", 0.0)),
        )

    @property
    def share_lost(self) -> float:
        """Of the planned rounds, in [0, 1]."""
        return self.lost / max(self.planned or 0, self.made + self.lost, 1)

    @property
    def sentence(self) -> str:
        """In a few words."""
        planned = "" if self.planned is None else f" of {self.planned}"
        lost = f"{self.lost} lost with their budget" if self.lost else "none lost"
        return f"{self.made}{planned} rounds made, {lost}, epsilon spent {self.spent:.3g}"


def require_few_lost(fares: Fares, *, most_lost: float) -> None:
    """Hold a run that is over against the share of its rounds that it may lose.

    Raises:
        RoundsLostError: it lost more.
    """
    if fares.share_lost > most_lost:
        raise RoundsLostError(
            f"{fares.sentence}: {fares.share_lost:.0%} of its rounds are lost, and rounds.most_lost is "
            f"{most_lost:g}; rounds.jsonl says why, and a new training needs another state folder and budget"
        )


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines so far; one that is being written or damaged ends them, and a file that is not there has none."""
    found = list[dict[str, Any]]()
    if not path.exists():
        return found
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            break
        if isinstance(entry, dict):
            found.append(entry)
    return found


def number_of(value: Any) -> float:
    """A finite number of a line; 0 for anything else."""
    return float(value) if is_number(value) else 0.0


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
