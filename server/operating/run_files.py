"""The files of a run, wherever it runs: a simulation's folder or a fleet's, written by this process or another."""

import os
from dataclasses import dataclass
from pathlib import Path

from fedboard.common.errors import InputError
from fedboard.common.files import stamp_of

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
