"""Runs without reports, for tests that look at none: drawing takes most of their time."""

from pathlib import Path

import pytest


def leave_out(patch: pytest.MonkeyPatch) -> None:
    """Files are there as always; reports are empty."""
    from fedboard.simulations import simulate

    def report(run: Path) -> Path:
        (run / "report.html").write_text("<p>left out")
        return run / "report.html"

    patch.setattr(simulate, "write_report", report)
