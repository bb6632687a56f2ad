"""The directory that the flags of a run name."""

from pathlib import Path

from fedboard.common.errors import InputError


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
    from fedboard.simulations.runs.folders import RUNS, fresh

    if out is not None and name is not None:
        raise InputError("give --out DIR or --name NAME (which is runs/NAME), not both")
    if out is not None:
        return out
    if name is not None:
        return RUNS / name
    if resume:
        raise InputError("--resume needs the run: give --out DIR or --name NAME")
    return fresh(RUNS / default)
