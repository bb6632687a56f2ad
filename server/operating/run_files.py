"""The files of a run, wherever it runs: a simulation's folder or a fleet's; and how it fares by its log of rounds.

The log has a JSON object a line, and is read while somebody may be writing.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedboard.common.errors import InputError, RoundsLostError
from fedboard.common.files import stamp_of
from fedboard.common.reports.wording import number_or_none

ROUNDS, METRICS = "rounds.jsonl", "metrics.jsonl"
_RUNS = "runs"
"""In the state folder of a fleet's server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """Where they are. None of them needs to be there yet."""

    folder: Path
    """Ledger, boards, log of the rounds."""

    @property
    def ledger(self) -> Path:
        """The run's ledger."""
        return self.folder / "ledger.sqlite"

    @property
    def boards(self) -> Path:
        """Folder of the published boards."""
        return self.folder / "boards"

    @property
    def log(self) -> Path:
        """One line a round: a simulation's, or a fleet's."""
        metrics = self.folder / METRICS
        return metrics if metrics.exists() else self.folder / ROUNDS

    @property
    def is_simulation(self) -> bool:
        """Whether it is a simulation's folder; whether its noise is a simulation's is in the ledger."""
        return (self.folder / "config.json").exists() or (self.folder / METRICS).exists()

    @property
    def writer(self) -> int | None:
        """The process that writes the ledger, if it lives.

        Asked of the number in the lock's file, not of the lock: trying it would hold it for a moment, and the run's
        own process could find it taken.
        """
        try:
            number = int((self.folder / "ledger.sqlite.lock").read_bytes() or b"0")
            os.kill(number, 0)
        except PermissionError:
            return number
        except (OSError, ValueError, OverflowError):
            return None
        return number or None

    def signature(self) -> tuple[object, ...]:
        """Another one after any of the files has changed."""
        watched = [self.folder / name for name in (METRICS, ROUNDS, "config.json", "certificate.json")]
        watched += [self.boards]
        return (*map(stamp_of, watched), self.ledger_signature(), self.writer)

    def ledger_signature(self) -> tuple[object, ...]:
        """Another one after the ledger has changed."""
        return tuple(map(stamp_of, (self.ledger, self.ledger.with_name(f"{self.ledger.name}-wal"))))


def run_files(place: Path) -> RunFiles:
    """The files of a run, from its folder or from the state folder of a fleet's server.

    Args:
        place: a folder; empty where a run is about to begin there.

    Raises:
        InputError: it is no folder, holds something else, or several runs.
    """
    if (place / _RUNS).is_dir():
        runs = sorted(path for path in (place / _RUNS).iterdir() if path.is_dir())
        if len(runs) != 1:
            names = ", ".join(path.name for path in runs) or "none"
            raise InputError(
                f"{place}: several runs may be there ({names}); name one of them, {place}/{_RUNS}/NAME"
            )
        return RunFiles(folder=runs[0])
    if not place.is_dir():
        raise InputError(
            f"{place}: there is no such folder; give the folder of a run, or a fleet's state folder"
        )
    files = RunFiles(folder=place)
    if any(place.iterdir()) and not (files.is_simulation or files.ledger.exists() or files.boards.exists()):
        raise InputError(
            f"{place}: no run is there (neither {files.ledger.name} nor boards/); give the folder of a run, or a "
            "fleet's state folder"
        )
    return files


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
    return number_or_none(value) or 0.0
