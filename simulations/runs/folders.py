"""Where runs go when nobody says: a fresh directory, never one that is in use."""

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedboard.simulations.config import SimulationConfig

RUNS = Path("runs")


def fresh(wanted: Path) -> Path:
    """``wanted`` if nothing is there, else the first of ``wanted-2``, ``wanted-3``, ... that is free."""
    candidates = (
        wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}") for number in count(1)
    )
    return next(
        path for path in candidates if not path.exists() or (path.is_dir() and not any(path.iterdir()))
    )


def name_of(config: "SimulationConfig") -> str:
    """What a run is called if nobody says: its algorithm and epsilon."""
    from fedboard.simulations.runs.algorithm_choice import label_of
    from fedboard.simulations.runs.without_privacy import (
        is_reference,  # more to import than a command's start bears
    )

    if is_reference(config.algorithm):
        return config.algorithm
    return f"{label_of(config.algorithm)}-eps{config.privacy.epsilon:g}"
