"""Flower is imported once, before warnings become errors: its own imports use names that Click has deprecated."""

import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import flwr.cli.build
    import flwr.clientapp
    import flwr.serverapp
    import flwr.supercore.control  # noqa: F401


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than everything else in a run this small."""
    from fedboard.simulations import simulate as module

    def written(run: Path) -> Path:
        return run / "report.html"

    monkeypatch.setattr(module, "write_report", written)
