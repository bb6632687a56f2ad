"""Runs, sweeps and searches without pictures, for tests that look at none: drawing takes most of their time."""

from pathlib import Path
from typing import Any

import pytest


def leave_out(patch: pytest.MonkeyPatch) -> None:
    """Files are there as always; reports and pictures of trials are empty, a frontier shows nothing."""
    from matplotlib.figure import Figure

    from fedboard.simulations import simulate
    from fedboard.simulations.sweeps import frontier
    from fedboard.simulations.tuning import outcome

    def report(run: Path) -> Path:
        (run / "report.html").write_text("<p>left out")
        return run / "report.html"

    def trials(search: Any, trials: Any, best: Any, out: Path) -> tuple[Path, Path]:
        paths = out / "trials.svg", out / "trials.png"
        for path in paths:
            path.write_bytes(b"left out")
        return paths

    patch.setattr(simulate, "write_report", report)
    patch.setattr(frontier, "frontier_figure", lambda results, metric: Figure(figsize=(1, 1)))
    patch.setattr(outcome, "trials_figure", trials)
