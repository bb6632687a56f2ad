"""Runs and sweeps without pictures, for tests that look at none: drawing takes most of their time."""

from pathlib import Path

import pytest


def leave_out(patch: pytest.MonkeyPatch) -> None:
    """Files are there as always; reports are empty, a frontier shows nothing."""
    from matplotlib.figure import Figure

    from fedboard.simulations import simulate
    from fedboard.simulations.sweeps import frontier

    def report(run: Path) -> Path:
        (run / "report.html").write_text("<p>left out")
        return run / "report.html"

    patch.setattr(simulate, "write_report", report)
    patch.setattr(frontier, "frontier_figure", lambda results, metric: Figure(figsize=(1, 1)))
