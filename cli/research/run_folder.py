"""Where runs go when nobody says: a fresh directory, never one that is in use."""

from itertools import count
from pathlib import Path

from fedboard.common.errors import InputError

RUNS = Path("runs")


def fresh(wanted: Path) -> Path:
    """``wanted`` if nothing is there, else the first of ``wanted-2``, ``wanted-3``, ... that is free."""
    candidates = (
        wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}") for number in count(1)
    )
    return next(
        path for path in candidates if not path.exists() or (path.is_dir() and not any(path.iterdir()))
    )


def run_place(out: Path | None, name: str | None, *, default: str, resume: bool) -> Path:
    """The directory of a run.

    Args:
        out: as given by ``--out``.
        name: as given by ``--name``: a directory in ``runs``.
        default: name of a new run that was given neither.
        resume: whether the run is there already.

    Raises:
        InputError: both are given, or neither for a run to resume.
    """
    if out is not None and name is not None:
        raise InputError("give --out DIR or --name NAME (which is runs/NAME), not both")
    if out is not None:
        return out
    if name is not None:
        return RUNS / name
    if resume:
        raise InputError("--resume needs the run: give --out DIR or --name NAME")
    return fresh(RUNS / default)


__all__ = ["RUNS", "fresh", "run_place"]
